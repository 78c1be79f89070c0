import java.io.FileInputStream;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import kafka.consumer.Consumer;
import kafka.consumer.ConsumerConfig;
import kafka.consumer.KafkaStream;
import kafka.consumer.Whitelist;
import kafka.javaapi.consumer.ConsumerConnector;
import kafka.message.MessageAndMetadata;

/**
 * A member of a group of Kafka 0.8: prints "partition offset value" of what it reads, and leaves when standard input ends.
 *
 * Arguments: a file with the consumer's properties, a topic (or /regular expression/), how many streams.
 */
public final class OldMember {
    public static void main(String[] args) throws Exception {
        Properties properties = new Properties();
        try (FileInputStream file = new FileInputStream(args[0])) {
            properties.load(file);
        }
        ConsumerConnector connector = Consumer.createJavaConsumerConnector(new ConsumerConfig(properties));
        int threads = Integer.parseInt(args[2]);
        List<KafkaStream<byte[], byte[]>> streams = args[1].startsWith("/")
            ? connector.createMessageStreamsByFilter(new Whitelist(args[1].replace("/", "")), threads)
            : connector.createMessageStreams(Collections.singletonMap(args[1], threads)).get(args[1]);
        for (KafkaStream<byte[], byte[]> stream : streams) {
            Thread thread = new Thread(() -> {
                for (MessageAndMetadata<byte[], byte[]> each : stream) {
                    synchronized (System.out) {
                        System.out.println(each.partition() + " " + each.offset() + " " + new String(each.message()));
                    }
                }
            });
            thread.setDaemon(true);
            thread.start();
        }
        while (System.in.read() >= 0) { }
        connector.shutdown();
        System.exit(0);
    }
}
