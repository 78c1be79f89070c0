import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A member of a consumer group: reads, commits what it read, and tells everything; see tests/faults/group_member.py.
 *
 * Arguments: bootstrap servers, group, topic, client id, range or cooperative-sticky, session time-out in ms.
 */
public final class GroupMember {
    private static volatile boolean leaving = false;

    public static void main(String[] args) throws Exception {
        int session = Integer.parseInt(args[5]);
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", args[0]);
        settings.put("group.id", args[1]);
        settings.put("client.id", args[3]);
        settings.put("enable.auto.commit", false);
        settings.put("auto.offset.reset", "earliest");
        settings.put("session.timeout.ms", session);
        settings.put("heartbeat.interval.ms", Math.min(session / 5, 2_000));
        settings.put("partition.assignment.strategy",
            args[4].equals("range") ? RangeAssignor.class.getName() : CooperativeStickyAssignor.class.getName());
        settings.put("key.deserializer", ByteArrayDeserializer.class);
        settings.put("value.deserializer", ByteArrayDeserializer.class);
        Thread waiting = new Thread(() -> {
            try {
                while (System.in.read() >= 0) { }
            } catch (java.io.IOException error) {
                // It ended all the same.
            }
            leaving = true;
        });
        waiting.setDaemon(true);
        waiting.start();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings)) {
            new GroupMember(consumer).run(args[2]);
        }
        tell("closed", "by", "\"close\"");
    }

    private final KafkaConsumer<byte[], byte[]> consumer;
    private final Map<TopicPartition, OffsetAndMetadata> uncommitted = new HashMap<>();

    private GroupMember(KafkaConsumer<byte[], byte[]> consumer) {
        this.consumer = consumer;
    }

    private void run(String topic) {
        consumer.subscribe(List.of(topic), new Listener());
        while (!leaving) {
            ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(200));
            if (!records.isEmpty()) {
                Map<Integer, String> read = new TreeMap<>();
                for (TopicPartition partition : records.partitions()) {
                    List<ConsumerRecord<byte[], byte[]>> rows = records.records(partition);
                    long last = rows.get(rows.size() - 1).offset();
                    read.put(partition.partition(), "[" + rows.get(0).offset() + "," + last + "]");
                    uncommitted.put(partition, new OffsetAndMetadata(last + 1));
                }
                tell("consumed", "offsets", object(read));
            }
            commit();
        }
    }

    /** What was read; a commit is refused while a rebalance is under way, in which a cooperative member reads on. */
    private void commit() {
        if (uncommitted.isEmpty()) {
            return;
        }
        try {
            consumer.commitSync(uncommitted);
            Map<Integer, Long> ends = new TreeMap<>();
            uncommitted.forEach((partition, end) -> ends.put(partition.partition(), end.offset()));
            tell("committed", "offsets", object(ends));
            uncommitted.clear();
        } catch (KafkaException error) {
            tell("failed", "error", '"' + error.getClass().getSimpleName() + '"');
        }
    }

    private final class Listener implements ConsumerRebalanceListener {
        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            commit();
            uncommitted.keySet().removeAll(partitions);
            tell("revoked", "partitions", numbers(partitions));
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            tell("assigned", "partitions", numbers(partitions));
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            uncommitted.keySet().removeAll(partitions);
            tell("lost", "partitions", numbers(partitions));
        }
    }

    private static String numbers(Collection<TopicPartition> partitions) {
        return partitions.stream().map(each -> String.valueOf(each.partition())).collect(Collectors.joining(",", "[", "]"));
    }

    private static String object(Map<Integer, ?> values) {
        return values.entrySet().stream().map(each -> "\"" + each.getKey() + "\":" + each.getValue())
            .collect(Collectors.joining(",", "{", "}"));
    }

    private static synchronized void tell(String event, String key, String value) {
        // The same clock as Python's time.monotonic_ns().
        System.out.println("{\"event\":\"" + event + "\",\"at\":" + System.nanoTime() / 1_000_000 + ",\"" + key + "\":" + value + "}");
    }
}
