import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * What Kafka's own producer says about calls out of order and about transactions that fail, a line each.
 *
 * Arguments: bootstrap servers, a topic, what the transactional ids begin with.
 */
public final class TransactionOracle {
    private interface Step {
        Object run() throws Exception;
    }

    private static String bootstrap;
    private static String topic;
    private static String prefix;

    public static void main(String[] args) throws Exception {
        bootstrap = args[0];
        topic = args[1];
        prefix = args[2];
        outOfOrder();
        fenced();
        timedOut();
        failedSend();
        staleMember();
        dropped();
    }

    private static void outOfOrder() throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = made(null, Map.of())) {
            say("plain begin", producer::beginTransaction);
        }
        try (KafkaProducer<byte[], byte[]> producer = made("order", Map.of())) {
            say("begin before init", producer::beginTransaction);
            say("commit before init", producer::commitTransaction);
            say("abort before init", producer::abortTransaction);
            say("init", producer::initTransactions);
            say("init again", producer::initTransactions);
            say("offsets before begin", () -> sendOffsets(producer, -1, ""));
            say("commit before begin", producer::commitTransaction);
            say("abort before begin", producer::abortTransaction);
            say("begin", producer::beginTransaction);
            say("begin again", producer::beginTransaction);
            say("offsets without member", () -> sendOffsets(producer, 3, ""));
            say("commit of nothing", producer::commitTransaction);
            say("begin anew", producer::beginTransaction);
            say("abort of nothing", producer::abortTransaction);
        }
        // Kafka's producer keeps the record of a send that it refuses, and cannot end a transaction any more.
        KafkaProducer<byte[], byte[]> spoiled = made("spoiled", Map.of());
        say("send before init", () -> send(spoiled, 1).get());
        spoiled.initTransactions();
        say("send before begin", () -> send(spoiled, 1).get());
        spoiled.close(Duration.ZERO);
        try (KafkaProducer<byte[], byte[]> producer = made("long", Map.of("transaction.timeout.ms", 2_000_000_000))) {
            say("init with a long time-out", producer::initTransactions);
            say("begin after that", producer::beginTransaction);
        }
        say("without idempotence", () -> made("x", Map.of("enable.idempotence", "false")));
        say("with acks=1", () -> made("x", Map.of("acks", "1")));
        say("empty id", () -> made("", Map.of()));
    }

    private static void fenced() throws Exception {
        try (KafkaProducer<byte[], byte[]> old = made("fenced", Map.of());
            KafkaProducer<byte[], byte[]> other = made("fenced", Map.of())) {
            old.initTransactions();
            old.beginTransaction();
            send(old, 1).get();
            other.initTransactions();
            say("send when fenced", () -> send(old, 1).get());
            say("commit when fenced", old::commitTransaction);
            say("abort when fenced", old::abortTransaction);
            say("abort again when fenced", old::abortTransaction);
            say("begin when fenced", old::beginTransaction);
            say("send after that", () -> send(old, 1).get());
        }
        try (KafkaProducer<byte[], byte[]> old = made("fenced2", Map.of());
            KafkaProducer<byte[], byte[]> other = made("fenced2", Map.of())) {
            old.initTransactions();
            old.beginTransaction();
            send(old, 1).get();
            other.initTransactions();
            say("only commit when fenced", old::commitTransaction);
            say("commit again when fenced", old::commitTransaction);
        }
        try (KafkaProducer<byte[], byte[]> old = made("fenced3", Map.of());
            KafkaProducer<byte[], byte[]> other = made("fenced3", Map.of())) {
            old.initTransactions();
            other.initTransactions();
            old.beginTransaction();
            say("first send when fenced", () -> send(old, 1).get());
            say("offsets when fenced", () -> sendOffsets(old, -1, ""));
        }
    }

    private static void timedOut() throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = made("late", Map.of("transaction.timeout.ms", 500));
            Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            producer.initTransactions();
            producer.beginTransaction();
            send(producer, 1).get();
            while (admin.describeTransactions(List.of(prefix + "late")).description(prefix + "late").get().state()
                != TransactionState.COMPLETE_ABORT) {
                Thread.sleep(50);
            }
            say("send when late", () -> send(producer, 1).get());
            say("commit when late", producer::commitTransaction);
            say("abort when late", producer::abortTransaction);
            say("begin when late", producer::beginTransaction);
        }
    }

    private static void failedSend() throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = made("failed", Map.of("max.request.size", 1000))) {
            producer.initTransactions();
            producer.beginTransaction();
            say("good send", () -> send(producer, 1).get().offset() >= 0);
            say("large send", () -> send(producer, 2000).get());
            say("send after failure", () -> send(producer, 1).get());
            say("offsets after failure", () -> sendOffsets(producer, -1, ""));
            say("commit after failure", producer::commitTransaction);
            say("begin after failure", producer::beginTransaction);
            say("abort after failure", producer::abortTransaction);
            say("begin after abort", producer::beginTransaction);
            say("send after abort", () -> send(producer, 1).get().offset() >= 0);
            say("commit after abort", producer::commitTransaction);
        }
    }

    private static void staleMember() throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = made("stale", Map.of())) {
            producer.initTransactions();
            producer.beginTransaction();
            say("offsets of a stranger", () -> sendOffsets(producer, 3, "nobody"));
            say("commit after that stranger", producer::commitTransaction);
            say("abort after the stranger", producer::abortTransaction);
            producer.beginTransaction();
            say("offsets of anybody", () -> sendOffsets(producer, -1, ""));
            say("offsets of nothing", () -> {
                producer.sendOffsetsToTransaction(Map.of(), new ConsumerGroupMetadata(prefix + "g"));
                return "done";
            });
            say("commit with offsets", producer::commitTransaction);
        }
    }

    private static void dropped() throws Exception {
        KafkaProducer<byte[], byte[]> producer = made("dropped", Map.of("linger.ms", 100_000));
        producer.initTransactions();
        producer.beginTransaction();
        Future<RecordMetadata> unsent = send(producer, 1);
        say("abort with unsent", producer::abortTransaction);
        say("what was unsent", () -> unsent.get());
        producer.beginTransaction();
        Future<RecordMetadata> closed = send(producer, 1);
        say("close in a transaction", () -> producer.close());
        say("what was sent before close", () -> closed.get().offset() >= 0);
        say("begin when closed", producer::beginTransaction);
        try (KafkaProducer<byte[], byte[]> next = made("dropped", Map.of())) {
            say("init after close", next::initTransactions);
        }
    }

    private static KafkaProducer<byte[], byte[]> made(String id, Map<String, Object> more) {
        Map<String, Object> config = new HashMap<>(more);
        config.put("bootstrap.servers", bootstrap);
        config.put("delivery.timeout.ms", 200_000);
        if (id != null) {
            config.put("transactional.id", id.isEmpty() ? "" : prefix + id);
        }
        return new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private static Future<RecordMetadata> send(KafkaProducer<byte[], byte[]> producer, int size) {
        return producer.send(new ProducerRecord<>(topic, 0, null, new byte[size]));
    }

    private static Object sendOffsets(KafkaProducer<byte[], byte[]> producer, int generation, String member) {
        Map<TopicPartition, OffsetAndMetadata> offsets = Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(1));
        ConsumerGroupMetadata group =
            new ConsumerGroupMetadata(prefix + "g", generation, member, java.util.Optional.empty());
        producer.sendOffsetsToTransaction(offsets, group);
        return "done";
    }

    private static void say(String name, Runnable step) {
        say(name, () -> {
            step.run();
            return "done";
        });
    }

    private static void say(String name, Step step) {
        String outcome;
        try {
            outcome = String.valueOf(step.run());
        } catch (ExecutionException e) {
            outcome = "later " + shown(e.getCause());
        } catch (Exception e) {
            outcome = shown(e);
        }
        System.out.println(name + ": " + outcome);
    }

    private static String shown(Throwable e) {
        String cause = e.getCause() == null ? "" : " <- " + e.getCause().getClass().getSimpleName();
        return e.getClass().getSimpleName() + cause + ": " + e.getMessage();
    }
}
