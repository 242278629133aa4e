import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Real traffic of Kafka's own clients to record:
 * java -cp 'jars/*' Traffic.java BOOTSTRAP RECORDS PARTITIONS MEMBERS
 *
 * <p>Producers send small records of random bytes, a record a batch, to two topics of so many
 * partitions; two groups of so many members follow them, one of each group protocol, with fetch
 * sessions, heartbeats and commits. Every client has a connection to
 * each broker and one to its group's coordinator, and one counter of correlation ids for all of
 * them. What it does is bounded by the number of records, how long it takes by LIMIT_S.
 */
public final class Traffic {
  private static final long LIMIT_S = 300;
  private static final int IN_FLIGHT = 4;
  private static final List<String> TOPICS = List.of("orders", "payments");
  private static final List<String> ACKS = List.of("all", "all", "1", "1");
  private static final int LEAST_BYTES = 100;
  private static final int MOST_BYTES = 700;
  private static final int POLLS_PER_COMMIT = 5;
  private static final int POLLS_PER_LAG = 100;

  private final String bootstrap;
  private final int records;
  private final int partitions;
  private final int members;
  private final long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(LIMIT_S);
  private final CountDownLatch assigned;

  private Traffic(String bootstrap, int records, int partitions, int members) {
    this.bootstrap = bootstrap;
    this.records = records;
    this.partitions = partitions;
    this.members = members;
    this.assigned = new CountDownLatch(2 * members);
  }

  public static void main(String[] words) throws Exception {
    try {
      int[] numbers = Arrays.stream(words).skip(1).mapToInt(Integer::parseInt).toArray();
      new Traffic(words[0], numbers[0], numbers[1], numbers[2]).run();
    } catch (Exception failed) {
      System.err.println(failed instanceof ExecutionException ? failed.getCause() : failed);
      System.exit(1);
    }
    System.exit(0);
  }

  private void run() throws Exception {
    createTopics();
    ExecutorService pool = Executors.newCachedThreadPool();
    List<Future<Void>> jobs = new ArrayList<>();
    for (String protocol : List.of("classic", "consumer")) {
      AtomicLong left = new AtomicLong(records);
      for (int member = 0; member < members; member++) {
        jobs.add(pool.submit(consumer(protocol, member, left)));
      }
    }
    // What is written before a group reads comes in large fetches.
    while (!assigned.await(100, TimeUnit.MILLISECONDS)) {
      failIfDone(jobs);
      checkTime("the groups to have their partitions");
    }
    for (int number = 0; number < ACKS.size(); number++) {
      jobs.add(pool.submit(producer(number)));
    }
    for (Future<Void> job : jobs) {
      long leftNs = Math.max(end - System.nanoTime(), 0) + TimeUnit.SECONDS.toNanos(30);
      job.get(leftNs, TimeUnit.NANOSECONDS);
    }
  }

  /** A job that ends before the producers begin has failed. */
  private static void failIfDone(List<Future<Void>> jobs) throws Exception {
    for (Future<Void> job : jobs) {
      if (job.isDone()) {
        job.get();
      }
    }
  }

  private void checkTime(String what) throws TimeoutException {
    if (System.nanoTime() > end) {
      throw new TimeoutException("waited " + LIMIT_S + " s for " + what);
    }
  }

  private void createTopics() throws Exception {
    try (Admin admin = Admin.create(settings("admin", Map.of()))) {
      List<NewTopic> topics = new ArrayList<>();
      for (String topic : TOPICS) {
        topics.add(new NewTopic(topic, partitions, (short) 1));
      }
      admin.createTopics(topics).all().get();
    }
  }

  private Properties settings(String clientId, Map<String, String> more) {
    Properties properties = new Properties();
    properties.put("bootstrap.servers", bootstrap);
    properties.put("client.id", clientId);
    properties.putAll(more);
    return properties;
  }

  private Callable<Void> producer(int number) {
    return () -> {
      Properties settings =
          settings(
              "producer-" + number,
              Map.of("acks", ACKS.get(number), "linger.ms", "0", "batch.size", "1"));
      Random random = new Random(number);
      Semaphore inFlight = new Semaphore(IN_FLIGHT);
      AtomicReference<Exception> refused = new AtomicReference<>();
      int own = records / ACKS.size() + (number < records % ACKS.size() ? 1 : 0);
      var bytes = new ByteArraySerializer();
      try (var producer = new KafkaProducer<byte[], byte[]>(settings, bytes, bytes)) {
        for (int sent = 0; sent < own; sent++) {
          byte[] value = new byte[random.nextInt(LEAST_BYTES, MOST_BYTES)];
          random.nextBytes(value);
          String topic = TOPICS.get(random.nextInt(TOPICS.size()));
          int partition = random.nextInt(partitions);
          while (!inFlight.tryAcquire(1, TimeUnit.SECONDS)) {
            checkTime("the brokers to acknowledge");
          }
          producer.send(
              new ProducerRecord<>(topic, partition, null, value),
              (told, error) -> {
                refused.compareAndSet(null, error);
                inFlight.release();
              });
        }
      }
      if (refused.get() != null) {
        throw refused.get();
      }
      return null;
    };
  }

  private Callable<Void> consumer(String protocol, int member, AtomicLong left) {
    return () -> {
      Map<String, String> group =
          protocol.equals("classic")
              ? Map.of("group.protocol", protocol, "heartbeat.interval.ms", "100")
              : Map.of("group.protocol", protocol);
      Properties settings = settings(protocol + "-" + member, group);
      settings.put("group.id", "group-" + protocol);
      settings.put("enable.auto.commit", "false");
      settings.put("auto.offset.reset", "earliest");
      // So that a reader that is behind gets a few records at a time, and no large fetch.
      settings.put("max.partition.fetch.bytes", "1024");
      var bytes = new ByteArrayDeserializer();
      try (var consumer = new KafkaConsumer<byte[], byte[]>(settings, bytes, bytes)) {
        consumer.subscribe(TOPICS);
        consume(consumer, left);
      }
      return null;
    };
  }

  private void consume(KafkaConsumer<byte[], byte[]> consumer, AtomicLong left)
      throws TimeoutException {
    boolean waits = true;
    for (int polls = 1; left.get() > 0; polls++) {
      checkTime("records to read");
      left.addAndGet(-consumer.poll(Duration.ofMillis(200)).count());
      if (waits && consumer.assignment().size() == TOPICS.size() * partitions / members) {
        waits = false;
        assigned.countDown();
      }
      if (polls % POLLS_PER_COMMIT == 0) {
        consumer.commitAsync();
      }
      if (polls % POLLS_PER_LAG == 0) {
        consumer.endOffsets(consumer.assignment());
      }
    }
    consumer.commitSync();
  }
}
