import java.util.Properties;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Writes a record every so often to partition 0 of a topic until its input ends, and prints the moment (System.nanoTime)
 * at which each was acknowledged, or "E" and the error.
 */
public class SteadyProducer {
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("acks", "all");
        properties.put("key.serializer", ByteArraySerializer.class.getName());
        properties.put("value.serializer", ByteArraySerializer.class.getName());
        for (int i = 3; i < arguments.length; i++) {
            String[] pair = arguments[i].split("=", 2);
            properties.put(pair[0], pair[1]);
        }
        long pause = Long.parseLong(arguments[2]) * 1_000_000L;
        Thread ends = new Thread(() -> {
            try {
                while (System.in.read() >= 0) { }
            } catch (java.io.IOException ignored) { }
        });
        ends.start();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties)) {
            while (ends.isAlive()) {
                producer.send(new ProducerRecord<>(arguments[1], 0, null, new byte[] {1}), (metadata, error) -> {
                    synchronized (System.out) {
                        System.out.println(error == null ? Long.toString(System.nanoTime()) : "E " + error);
                        System.out.flush();
                    }
                });
                LockSupport.parkNanos(pause);
            }
        }
    }
}
