import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.common.utils.Utils;

/**
 * What Kafka's own producer makes of some values, keys and mistakes, a line each: serializers' bytes, the hash of keys, the text of
 * errors that come before a record is sent.
 *
 * Arguments: bootstrap servers, a topic of two partitions.
 */
public final class ProducerOracle {
    private static final UUID ID = UUID.fromString("01234567-89ab-cdef-0123-456789abcdef");

    public static void main(String[] args) throws Exception {
        show("String", Serdes.String().serializer(), "grün€");
        Serializer<String> latin = Serdes.String().serializer();
        latin.configure(Map.of("value.serializer.encoding", "ISO-8859-1"), false);
        show("Latin", latin, "grün€");
        show("Short", Serdes.Short().serializer(), (short) -2);
        show("Integer", Serdes.Integer().serializer(), 258);
        show("Long", Serdes.Long().serializer(), Long.MIN_VALUE);
        show("Float", Serdes.Float().serializer(), 1.1f);
        show("Double", Serdes.Double().serializer(), -1.1);
        show("Boolean", Serdes.Boolean().serializer(), true);
        show("UUID", Serdes.UUID().serializer(), ID);
        show("ByteBuffer", Serdes.ByteBuffer().serializer(), ByteBuffer.wrap(new byte[] {1, 2}));
        show("Longs", list("LongSerde"), Arrays.asList(1L, null, -1L));
        show("Strings", list("StringSerde"), Arrays.asList("a", null, ""));
        show("UUIDs", list("UUIDSerde"), Arrays.asList(null, ID));
        show("Empty", list("BytesSerde"), Collections.emptyList());
        for (String key : List.of("", "a", "key", "größer", "a-little-bit-long-string")) {
            System.out.println("hash " + key + " " + Utils.toPositive(Utils.murmur2(key.getBytes("UTF-8"))));
        }
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", args[0]);
        config.put("max.block.ms", 1500);
        config.put("max.request.size", 1000);
        config.put("buffer.memory", 900);
        config.put("batch.size", 100);
        ByteArraySerializer bytes = new ByteArraySerializer();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config, bytes, bytes)) {
            waitFor(args[1], producer);
            refuse(producer, new ProducerRecord<>(args[1], new byte[3], new byte[2000]));
            refuse(producer, new ProducerRecord<>(args[1], null, new byte[870]));
            refuse(producer, new ProducerRecord<>(args[1], 7, null, new byte[1]));
            config.put("max.block.ms", 60_000);
            try (KafkaProducer<byte[], byte[]> patient = new KafkaProducer<>(config, bytes, bytes)) {
                refuse(patient, new ProducerRecord<>("no/topic", new byte[1]));
            }
            producer.close();
            try {
                producer.send(new ProducerRecord<>(args[1], new byte[1]));
            } catch (Exception e) {
                System.out.println("closed " + e.getMessage());
            }
        }
    }

    /** Until a producer knows a topic: what is shown of a send is then what it says of the record, however slow all begins. */
    private static void waitFor(String topic, KafkaProducer<byte[], byte[]> producer) {
        for (int tries = 20; ; tries--) {
            try {
                producer.partitionsFor(topic);
                return;
            } catch (TimeoutException e) {
                if (tries == 0) {
                    throw e;
                }
            }
        }
    }

    private static <T> void show(String name, Serializer<T> serializer, T value) {
        System.out.println(name + " " + HexFormat.of().formatHex(serializer.serialize("t", value)));
    }

    private static <T> Serializer<List<T>> list(String inner) {
        Map<String, Object> config = new HashMap<>();
        config.put("default.list.value.serde.type", ArrayList.class.getName());
        config.put("default.list.value.serde.inner", "org.apache.kafka.common.serialization.Serdes$" + inner);
        Serdes.ListSerde<T> serde = new Serdes.ListSerde<>();
        serde.configure(config, false);
        return serde.serializer();
    }

    private static void refuse(KafkaProducer<byte[], byte[]> producer, ProducerRecord<byte[], byte[]> record) {
        try {
            producer.send(record).get();
            System.out.println("sent");
        } catch (Exception e) {
            System.out.println(e.getCause().getClass().getSimpleName() + " " + e.getCause().getMessage());
        }
    }
}
