import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.AppInfoParser;

/**
 * Jobs for Apache Kafka's own client: one JSON object on standard input, one on standard output, as
 * the Python workers beside this file do. Run from its source: java -cp 'jars/*' JavaWorker.java
 *
 * <p>A job's "steps" are done in this one process, each with a client of its own, because a JVM
 * takes longer to start than any of them to run.
 */
public final class JavaWorker {
  private static final ObjectMapper JSON = new ObjectMapper();

  private final ObjectNode found = JSON.createObjectNode();
  private final Map<String, Map<String, TreeMap<String, Integer>>> counts = new TreeMap<>();
  private final TreeMap<String, Integer> errors = new TreeMap<>();

  public static void main(String[] words) throws Exception {
    JsonNode job = JSON.readTree(System.in);
    ObjectNode all = JSON.createObjectNode();
    ArrayNode clients = all.putArray("clients");
    for (JsonNode step : job.get("steps")) {
      ObjectNode whole = ((ObjectNode) step).deepCopy();
      whole.put("bootstrap", job.get("bootstrap").asText());
      clients.add(new JavaWorker().run(whole));
    }
    System.out.println(JSON.writeValueAsString(all));
  }

  private ObjectNode run(JsonNode step) throws Exception {
    found.put("library", "apache-kafka-java");
    found.put("version", AppInfoParser.getVersion());
    found.put("client_id", step.get("client_id").asText());
    switch (step.get("op").asText()) {
      case "produce" -> produce(step);
      case "transactions" -> transactions(step);
      case "consume" -> consume(step);
      default -> throw new IllegalArgumentException(step.get("op").asText());
    }
    counts.forEach((what, topics) -> found.set(what, JSON.valueToTree(topics)));
    if (!errors.isEmpty()) {
      found.set("errors", JSON.valueToTree(errors));
    }
    found.put("op", step.get("op").asText());
    return found;
  }

  private Properties settings(JsonNode step) {
    Properties properties = new Properties();
    properties.put("bootstrap.servers", step.get("bootstrap").asText());
    properties.put("client.id", step.get("client_id").asText());
    step.path("config").properties().forEach(e -> properties.put(e.getKey(), e.getValue().asText()));
    return properties;
  }

  private void count(String what, String topic, int partition) {
    counts
        .computeIfAbsent(what, key -> new TreeMap<>())
        .computeIfAbsent(topic, key -> new TreeMap<>())
        .merge(String.valueOf(partition), 1, Integer::sum);
  }

  private void produce(JsonNode step) throws Exception {
    for (String key : List.of("acks", "codec")) {
      if (step.has(key)) {
        found.set(key, step.get(key));
      }
    }
    Properties properties = settings(step);
    properties.put("acks", step.path("acks").asText("all"));
    try (var producer = producer(properties)) {
      report(send(producer, step.get("sends")), "acknowledged");
    }
  }

  /** Each of "rounds" is a transaction: its records, its group's offsets, its end. */
  private void transactions(JsonNode step) throws Exception {
    try (var producer = producer(settings(step))) {
      producer.initTransactions();
      for (JsonNode round : step.get("rounds")) {
        producer.beginTransaction();
        var sent = send(producer, round.get("sends"));
        producer.flush();
        boolean commit = round.get("commit").asBoolean();
        report(sent, commit ? "committed" : "aborted");
        if (commit) {
          producer.commitTransaction();
        } else {
          producer.abortTransaction();
        }
      }
    }
  }

  private static KafkaProducer<byte[], byte[]> producer(Properties properties) {
    return new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer());
  }

  private List<Future<RecordMetadata>> send(KafkaProducer<byte[], byte[]> producer, JsonNode sends) {
    List<Future<RecordMetadata>> futures = new ArrayList<>();
    for (JsonNode send : sends) {
      String topic = send.get("topic").asText();
      int partition = send.get("partition").asInt();
      for (JsonNode given : send.get("records")) {
        List<Header> headers = new ArrayList<>();
        for (JsonNode header : given.get("headers")) {
          headers.add(new RecordHeader(header.get(0).asText(), bytes(header.get(1))));
        }
        byte[] key = bytes(given.get("key"));
        byte[] value = bytes(given.get("value"));
        futures.add(producer.send(new ProducerRecord<>(topic, partition, key, value, headers)));
        count("sent", topic, partition);
      }
    }
    return futures;
  }

  private void report(List<Future<RecordMetadata>> futures, String what) throws InterruptedException {
    for (var future : futures) {
      try {
        RecordMetadata told = future.get();
        count("acknowledged", told.topic(), told.partition());
        if (!what.equals("acknowledged")) {
          count(what, told.topic(), told.partition());
        }
      } catch (ExecutionException refused) {
        errors.merge(refused.getCause().getClass().getSimpleName(), 1, Integer::sum);
      }
    }
  }

  private void consume(JsonNode step) {
    Properties properties = settings(step);
    properties.put("enable.auto.commit", "false");
    properties.put("auto.offset.reset", "none");
    boolean keep = step.path("keep").asBoolean();
    ArrayNode records = keep ? found.putArray("records") : null;
    if (properties.containsKey("isolation.level")) {
      found.put("isolation_level", properties.getProperty("isolation.level"));
    }
    List<TopicPartition> parts = new ArrayList<>();
    for (JsonNode part : step.get("assign")) {
      parts.add(new TopicPartition(part.get(0).asText(), part.get(1).asInt()));
    }
    var strings = new ByteArrayDeserializer();
    try (var consumer = new KafkaConsumer<byte[], byte[]>(properties, strings, strings)) {
      consumer.assign(parts);
      consumer.seekToBeginning(parts);
      long end = System.nanoTime() + 20_000_000_000L;
      int left = step.get("count").asInt();
      while (left > 0 && System.nanoTime() < end) {
        for (var one : consumer.poll(Duration.ofMillis(200))) {
          count("consumed", one.topic(), one.partition());
          left--;
          if (keep) {
            records.add(record(one));
          }
        }
      }
    }
  }

  private static ObjectNode record(ConsumerRecord<byte[], byte[]> one) {
    ObjectNode record = JSON.createObjectNode();
    record.put("topic", one.topic());
    record.put("partition", one.partition());
    record.put("offset", one.offset());
    record.put("timestamp", one.timestamp());
    record.put("key", text(one.key()));
    record.put("value", text(one.value()));
    ArrayNode headers = record.putArray("headers");
    for (Header header : one.headers()) {
      headers.addArray().add(header.key()).add(text(header.value()));
    }
    return record;
  }

  private static byte[] bytes(JsonNode text) {
    return text.isNull() ? null : Base64.getDecoder().decode(text.asText());
  }

  private static String text(byte[] bytes) {
    return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
  }
}
