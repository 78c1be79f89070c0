import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;

/**
 * Copies a topic to another until its input ends. Arguments: bootstrap servers, source, target, directory for its state,
 * threads, and settings as key=value.
 */
public class StreamsCopy {
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("application.id", "copy-" + arguments[1]);
        properties.put("state.dir", arguments[3]);
        properties.put("num.stream.threads", arguments[4]);
        properties.put("auto.offset.reset", "earliest");
        properties.put("default.key.serde", Serdes.ByteArraySerde.class.getName());
        properties.put("default.value.serde", Serdes.ByteArraySerde.class.getName());
        for (int i = 5; i < arguments.length; i++) {
            String[] pair = arguments[i].split("=", 2);
            properties.put(pair[0], pair[1]);
        }
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(arguments[1]).to(arguments[2]);
        try (KafkaStreams streams = new KafkaStreams(builder.build(), properties)) {
            streams.start();
            while (System.in.read() >= 0) { }
            streams.close(Duration.ofSeconds(20));
        }
    }
}
