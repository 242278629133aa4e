import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricsReporter;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.telemetry.ClientTelemetry;
import org.apache.kafka.server.telemetry.ClientTelemetryPayload;
import org.apache.kafka.server.telemetry.ClientTelemetryReceiver;
import org.apache.kafka.shaded.io.opentelemetry.proto.common.v1.KeyValue;
import org.apache.kafka.shaded.io.opentelemetry.proto.metrics.v1.Metric;
import org.apache.kafka.shaded.io.opentelemetry.proto.metrics.v1.MetricsData;
import org.apache.kafka.shaded.io.opentelemetry.proto.metrics.v1.NumberDataPoint;

/** Makes a broker take the metrics that clients push (KIP-714): a line for each number, as JSON. */
public final class TelemetryReceiver implements MetricsReporter, ClientTelemetry {
  private static final Path FILE = Path.of(System.getProperty("lab.logs"), "telemetry.jsonl");

  @Override
  public ClientTelemetryReceiver clientReceiver() {
    return this::write;
  }

  private synchronized void write(AuthorizableRequestContext context, ClientTelemetryPayload push) {
    StringBuilder lines = new StringBuilder();
    try {
      ByteBuffer data = push.data();
      for (var resource : MetricsData.parseFrom(data.duplicate()).getResourceMetricsList()) {
        for (var scope : resource.getScopeMetricsList()) {
          for (Metric metric : scope.getMetricsList()) {
            String kind = metric.hasSum() ? "sum" : "gauge";
            boolean isDelta =
                metric.hasSum() && metric.getSum().getAggregationTemporalityValue() == 1;
            List<NumberDataPoint> points =
                metric.hasSum()
                    ? metric.getSum().getDataPointsList()
                    : metric.getGauge().getDataPointsList();
            for (NumberDataPoint point : points) {
              StringBuilder labels = new StringBuilder();
              for (KeyValue label : point.getAttributesList()) {
                labels.append(labels.isEmpty() ? "" : ",").append('"').append(label.getKey());
                labels.append("\":\"").append(label.getValue().getStringValue()).append('"');
              }
              lines
                  .append("{\"instance\":\"").append(push.clientInstanceId())
                  .append("\",\"client_id\":\"").append(context.clientId())
                  .append("\",\"is_last\":").append(push.isTerminating())
                  .append(",\"metric\":\"").append(metric.getName())
                  .append("\",\"kind\":\"").append(kind)
                  .append("\",\"is_delta\":").append(isDelta)
                  .append(",\"labels\":{").append(labels)
                  .append("},\"value\":")
                  .append(point.hasAsInt() ? point.getAsInt() : point.getAsDouble())
                  .append("}\n");
            }
          }
        }
      }
      byte[] text = lines.toString().getBytes(StandardCharsets.UTF_8);
      Files.write(FILE, text, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    } catch (IOException error) {
      throw new IllegalStateException(error);
    }
  }

  @Override
  public void init(List<KafkaMetric> metrics) {}

  @Override
  public void metricChange(KafkaMetric metric) {}

  @Override
  public void metricRemoval(KafkaMetric metric) {}

  @Override
  public void close() {}

  @Override
  public void configure(Map<String, ?> configs) {}
}
