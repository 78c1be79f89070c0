import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsResult;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The Java clients end to end, without a group: creates a topic, produces idempotently with every codec, consumes with assign, asks
 * for offsets in every way. Prints what it saw; two brokers that behave alike make it print the same.
 *
 * Arguments: bootstrap servers, topic (must not exist), records per codec.
 */
public final class Roundtrip {
    private static final String[] CODECS = {"none", "gzip", "snappy", "lz4", "zstd"};
    private static final long FIRST_TIMESTAMP = 1_700_000_000_000L;

    public static void main(String[] args) throws Exception {
        String bootstrap = args[0];
        TopicPartition partition = new TopicPartition(args[1], 0);
        int count = Integer.parseInt(args[2]);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            // The timestamps lie in the past: without this limit a broker could delete the records at once.
            NewTopic topic = new NewTopic(args[1], 1, (short) 1).configs(Map.of("retention.ms", "-1"));
            admin.createTopics(List.of(topic)).all().get();
            for (int codec = 0; codec < CODECS.length; codec++) {
                produce(bootstrap, partition, CODECS[codec], codec * count, count);
            }
            consume(bootstrap, partition, CODECS.length * count);
            offsets(admin, partition);
            seekByTime(bootstrap, partition);
        }
    }

    private static void produce(String bootstrap, TopicPartition partition, String codec, int first, int count) throws Exception {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("compression.type", codec);
        settings.put("enable.idempotence", true);
        settings.put("linger.ms", 5);
        settings.put("key.serializer", ByteArraySerializer.class);
        settings.put("value.serializer", ByteArraySerializer.class);
        List<Future<RecordMetadata>> acks = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings)) {
            for (int i = first; i < first + count; i++) {
                byte[] key = i % 3 == 0 ? null : ("key-" + i).getBytes();
                byte[] value = i % 7 == 0 ? null : ("value-" + i + "-" + "x".repeat(i % 50)).getBytes();
                ProducerRecord<byte[], byte[]> record =
                    new ProducerRecord<>(partition.topic(), partition.partition(), FIRST_TIMESTAMP + i, key, value);
                if (i % 5 == 0) {
                    record.headers().add("codec", codec.getBytes()).add("empty", null);
                }
                acks.add(producer.send(record));
            }
        }
        for (int i = 0; i < count; i++) {
            RecordMetadata metadata = acks.get(i).get();
            check(metadata.offset() == first + i, "offset " + metadata.offset() + " where " + (first + i) + " was due");
            check(metadata.timestamp() == FIRST_TIMESTAMP + first + i, "timestamp of " + metadata);
        }
        System.out.println("produced " + count + " " + codec);
    }

    private static KafkaConsumer<byte[], byte[]> consumer(String bootstrap) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("auto.offset.reset", "earliest");
        settings.put("isolation.level", "read_committed");
        settings.put("key.deserializer", ByteArrayDeserializer.class);
        settings.put("value.deserializer", ByteArrayDeserializer.class);
        return new KafkaConsumer<>(settings);
    }

    private static void consume(String bootstrap, TopicPartition partition, int count) {
        int seen = 0;
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(bootstrap)) {
            consumer.assign(List.of(partition));
            long deadline = System.currentTimeMillis() + 30_000;
            while (seen < count && System.currentTimeMillis() < deadline) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(500))) {
                    int i = seen++;
                    check(record.offset() == i, "offset " + record.offset() + " where " + i + " was due");
                    check(record.timestamp() == FIRST_TIMESTAMP + i, "timestamp of " + record);
                    String key = i % 3 == 0 ? null : "key-" + i;
                    check(key == null ? record.key() == null : key.equals(new String(record.key())), "key of " + record);
                    check(i % 7 == 0 ? record.value() == null : new String(record.value()).startsWith("value-" + i + "-"),
                        "value of " + record);
                    Header[] headers = record.headers().toArray();
                    check(headers.length == (i % 5 == 0 ? 2 : 0), "headers of " + record);
                    check(headers.length == 0 || headers[0].key().equals("codec") && headers[1].value() == null,
                        "headers of " + record);
                }
            }
        }
        System.out.println("consumed " + seen);
    }

    private static void offsets(Admin admin, TopicPartition partition) throws Exception {
        Map<String, OffsetSpec> specs = new TreeMap<>();
        specs.put("earliest", OffsetSpec.earliest());
        specs.put("latest", OffsetSpec.latest());
        specs.put("max timestamp", OffsetSpec.maxTimestamp());
        specs.put("by time", OffsetSpec.forTimestamp(FIRST_TIMESTAMP + 123));
        specs.put("by time in the future", OffsetSpec.forTimestamp(FIRST_TIMESTAMP * 2));
        for (Map.Entry<String, OffsetSpec> spec : specs.entrySet()) {
            ListOffsetsResult.ListOffsetsResultInfo info =
                admin.listOffsets(Map.of(partition, spec.getValue())).partitionResult(partition).get();
            System.out.println(spec.getKey() + ": offset " + info.offset() + " timestamp " + info.timestamp() + " epoch "
                + info.leaderEpoch());
        }
    }

    private static void seekByTime(String bootstrap, TopicPartition partition) {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(bootstrap)) {
            consumer.assign(List.of(partition));
            Map<TopicPartition, OffsetAndTimestamp> found =
                consumer.offsetsForTimes(Map.of(partition, FIRST_TIMESTAMP + 42));
            consumer.seek(partition, found.get(partition).offset());
            long deadline = System.currentTimeMillis() + 10_000;
            while (System.currentTimeMillis() < deadline) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(500))) {
                    System.out.println("first record at its time: " + record.offset());
                    System.out.println("end offset: " + consumer.endOffsets(List.of(partition)).get(partition));
                    System.out.println("partitions: " + consumer.partitionsFor(partition.topic()).size());
                    return;
                }
            }
        }
    }

    private static void check(boolean condition, String problem) {
        if (!condition) {
            throw new AssertionError(problem);
        }
    }
}
