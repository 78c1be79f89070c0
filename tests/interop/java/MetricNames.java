import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Which metrics Kafka's own clients have after some traffic, a line each: "client group name tag=value..." with tags in order.
 *
 * Arguments: bootstrap servers, a topic to make, a group.
 */
public final class MetricNames {
    public static void main(String[] args) throws Exception {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", args[0]);
        config.put("client.id", "me");
        config.put("group.id", args[2]);
        config.put("auto.offset.reset", "earliest");
        ByteArraySerializer in = new ByteArraySerializer();
        ByteArrayDeserializer out = new ByteArrayDeserializer();
        try (Admin admin = Admin.create(config);
             KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config, in, in);
             KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(config, out, out)) {
            admin.createTopics(List.of(new NewTopic(args[1], 1, (short) 1))).all().get();
            for (int i = 0; i < 3; i++) {
                producer.send(new ProducerRecord<>(args[1], new byte[10])).get();
            }
            consumer.subscribe(List.of(args[1]));
            int count = 0;
            while (count < 3) {
                count += consumer.poll(Duration.ofSeconds(10)).count();
            }
            consumer.commitSync();
            consumer.poll(Duration.ofMillis(100));
            show("admin", admin.metrics());
            show("producer", producer.metrics());
            show("consumer", consumer.metrics());
        }
    }

    private static void show(String client, Map<MetricName, ? extends Metric> metrics) {
        TreeSet<String> lines = new TreeSet<>();
        for (MetricName each : metrics.keySet()) {
            StringBuilder line = new StringBuilder(client + " " + each.group() + " " + each.name());
            for (Map.Entry<String, String> tag : new TreeMap<>(each.tags()).entrySet()) {
                line.append(" ").append(tag.getKey()).append("=").append(tag.getValue());
            }
            lines.add(line.toString());
        }
        for (String line : lines) {
            System.out.println(line);
        }
    }
}
