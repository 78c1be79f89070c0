import java.io.FileInputStream;
import java.io.InputStream;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * The Java clients as a user with rights to some names: does what it may, and tries what it may not. Prints what became of each.
 *
 * Arguments: file of the clients' settings; topic that it may use, and group and transactional id of that name; name that it may not
 * use; number of records.
 */
public final class GuardedSession {
    private final Properties settings = new Properties();
    private final int count;

    private GuardedSession(String file, int count) throws Exception {
        try (InputStream in = new FileInputStream(file)) {
            settings.load(in);
        }
        this.count = count;
    }

    public static void main(String[] args) throws Exception {
        GuardedSession session = new GuardedSession(args[0], Integer.parseInt(args[3]));
        String open = args[1];
        String shut = args[2];
        System.out.println("sends: " + session.send(open, session.count, false));
        System.out.println("sends idempotently: " + session.send(open, session.count, true));
        System.out.println("aborts: " + session.transact(open, open, false));
        System.out.println("commits: " + session.transact(open, open, true));
        System.out.println("reads: " + session.read(open, open, 2 * session.count + 1));
        System.out.println("sends where it may not: " + session.send(shut, 1, true));
        System.out.println("reads where it may not: " + session.read(shut, open, 1));
        System.out.println("joins where it may not: " + session.read(open, shut, 1));
        System.out.println("transacts where it may not: " + session.transact(shut, open, true));
    }

    private Properties with(Map<String, String> more) {
        Properties all = new Properties();
        all.putAll(settings);
        all.putAll(more);
        return all;
    }

    private KafkaProducer<String, String> producer(Map<String, String> more) {
        return new KafkaProducer<>(with(more), new StringSerializer(), new StringSerializer());
    }

    private String send(String topic, int records, boolean idempotent) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (KafkaProducer<String, String> producer = producer(Map.of("enable.idempotence", "" + idempotent, "linger.ms", "5"))) {
            for (int i = 0; i < records; i++) {
                sent.add(producer.send(new ProducerRecord<>(topic, "value " + i)));
            }
            for (Future<RecordMetadata> each : sent) {
                each.get();
            }
            return "sent";
        } catch (ExecutionException error) {
            return error.getCause().getClass().getSimpleName();
        }
    }

    private String transact(String id, String topic, boolean commit) throws Exception {
        try (KafkaProducer<String, String> producer = producer(Map.of("transactional.id", id))) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, commit ? "committed" : "aborted")).get();
            if (commit) {
                producer.commitTransaction();
            } else {
                producer.abortTransaction();
            }
            return "done";
        } catch (ApiException error) {
            return error.getClass().getSimpleName();
        }
    }

    private String read(String topic, String group, int records) {
        Map<String, String> more =
            Map.of("group.id", group, "auto.offset.reset", "earliest", "isolation.level", "read_committed");
        StringDeserializer text = new StringDeserializer();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(with(more), text, text)) {
            consumer.subscribe(List.of(topic));
            int seen = 0;
            String last = "";
            long deadline = System.currentTimeMillis() + 30_000;
            while (seen < records && System.currentTimeMillis() < deadline) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    seen++;
                    last = record.value();
                }
            }
            consumer.commitSync();
            return seen + ", the last of them " + last;
        } catch (ApiException error) {
            return error.getClass().getSimpleName();
        }
    }
}
