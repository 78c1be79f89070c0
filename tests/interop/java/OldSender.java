import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.InputStreamReader;
import java.util.Properties;
import kafka.javaapi.producer.Producer;
import kafka.producer.KeyedMessage;
import kafka.producer.ProducerConfig;

/**
 * The producer of Kafka 0.8: sends each line of standard input, and prints how many milliseconds that took and how it ended.
 *
 * Arguments: a file with the producer's properties, a topic.
 */
public final class OldSender {
    public static void main(String[] args) throws Exception {
        Properties properties = new Properties();
        try (FileInputStream file = new FileInputStream(args[0])) {
            properties.load(file);
        }
        Producer<byte[], byte[]> producer = new Producer<>(new ProducerConfig(properties));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            long began = System.nanoTime();
            String outcome = "sent";
            try {
                producer.send(new KeyedMessage<byte[], byte[]>(args[1], line.getBytes()));
            } catch (Exception error) {
                outcome = error.getMessage();
            }
            System.out.println((System.nanoTime() - began) / 1_000_000 + " " + outcome);
        }
        producer.close();
    }
}
