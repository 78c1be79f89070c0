import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Kafka's transactional producers, step by step: a line "PRODUCER STEP ARGUMENTS" each, answered by a line that says
 * "done" or the error's class.
 *
 * Arguments: bootstrap servers, and what transactional ids and client ids begin with.
 */
public final class TransactionSteps {
    private static final Map<String, KafkaProducer<byte[], byte[]>> producers = new HashMap<>();
    private static String bootstrap;
    private static String prefix;

    public static void main(String[] args) throws Exception {
        bootstrap = args[0];
        prefix = args[1];
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(outcome(line.split(" ")));
            System.out.flush();
        }
        System.exit(0);
    }

    private static String outcome(String[] words) {
        try {
            step(words);
            return "done";
        } catch (ExecutionException e) {
            return e.getCause().getClass().getSimpleName();
        } catch (Exception e) {
            return e.getClass().getSimpleName();
        }
    }

    private static void step(String[] words) throws Exception {
        KafkaProducer<byte[], byte[]> producer = producers.computeIfAbsent(words[0], TransactionSteps::made);
        switch (words[1]) {
            case "init" -> producer.initTransactions();
            case "begin" -> producer.beginTransaction();
            case "send" -> producer.send(new ProducerRecord<>(words[2], 0, null, new byte[Integer.parseInt(words[3])])).get();
            case "offsets" -> producer.sendOffsetsToTransaction(
                Map.of(new TopicPartition(words[2], 0), new OffsetAndMetadata(Long.parseLong(words[3]))), group(words[4]));
            case "commit" -> producer.commitTransaction();
            case "abort" -> producer.abortTransaction();
            case "close" -> producers.remove(words[0]).close();
            default -> throw new IllegalArgumentException(words[1]);
        }
    }

    private static ConsumerGroupMetadata group(String member) {
        return member.equals("-")
            ? new ConsumerGroupMetadata(prefix + "group")
            : new ConsumerGroupMetadata(prefix + "group", 3, member, Optional.empty());
    }

    private static KafkaProducer<byte[], byte[]> made(String name) {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", bootstrap);
        config.put("transactional.id", prefix + name);
        config.put("client.id", prefix + name);
        config.put("enable.metrics.push", "false");
        config.put("max.block.ms", 30_000);
        return new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
    }
}
