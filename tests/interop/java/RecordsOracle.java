import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.InvalidRecordException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.errors.CorruptRecordException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.ControlRecordType;
import org.apache.kafka.common.record.EndTransactionMarker;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.MutableRecordBatch;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.requests.ProduceRequest;
import org.apache.kafka.common.requests.ProduceResponse;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.PrimitiveRef;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogValidator;
import org.apache.kafka.storage.internals.log.RecordValidationException;

/** Answers one line per command line on standard input; bytes travel as hex, "-" is null and "=" is empty. */
public class RecordsOracle {
    static final HexFormat HEX = HexFormat.of();
    static final TopicPartition PARTITION = new TopicPartition("t", 0);

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            String answer;
            try {
                switch (words[0]) {
                    case "read": answer = read(bytes(words[1])); break;
                    case "write": answer = write(words); break;
                    case "marker": answer = marker(words); break;
                    case "downconvert": answer = downConvert(words); break;
                    case "validate": answer = validate(words); break;
                    default: throw new IllegalArgumentException(words[0]);
                }
            } catch (RecordValidationException problem) {
                StringBuilder text = new StringBuilder("error " + Errors.forException(problem.invalidException()).name());
                for (ProduceResponse.RecordError each : problem.recordErrors()) text.append(' ').append(each.batchIndex);
                answer = text.toString();
            } catch (Throwable problem) {
                answer = "error " + Errors.forException(problem).name() + " (" + problem + ")";
            }
            out.println(answer.replace('\n', ' '));
        }
    }

    static byte[] bytes(String word) {
        if (word.equals("-")) return null;
        return word.equals("=") ? new byte[0] : HEX.parseHex(word);
    }

    static String word(ByteBuffer buffer) {
        if (buffer == null) return "-";
        byte[] copy = new byte[buffer.remaining()];
        buffer.duplicate().get(copy);
        return copy.length == 0 ? "=" : HEX.formatHex(copy);
    }

    static String read(byte[] data) {
        StringBuilder text = new StringBuilder("ok");
        for (MutableRecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(data)).batches()) {
            batch.ensureValid();
            text.append(" B,").append(batch.magic()).append(',').append(batch.baseOffset()).append(',')
                .append(batch.lastOffset()).append(',').append(batch.compressionType().id).append(',')
                .append(batch.isControlBatch()).append(',').append(batch.isTransactional()).append(',')
                .append(batch.producerId()).append(',').append(batch.producerEpoch()).append(',')
                .append(batch.baseSequence()).append(',').append(batch.maxTimestamp());
            for (Record record : batch) {
                record.ensureValid();
                text.append(" R,").append(record.offset()).append(',').append(record.timestamp()).append(',')
                    .append(word(record.key())).append(',').append(word(record.value()));
                for (Header header : record.headers())
                    text.append(',').append(word(ByteBuffer.wrap(header.key().getBytes(StandardCharsets.UTF_8))))
                        .append(':').append(header.value() == null ? "-" : word(ByteBuffer.wrap(header.value())));
                if (batch.isControlBatch()) {
                    ControlRecordType type = ControlRecordType.parse(record.key());
                    text.append(",control=").append(type);
                    if (type == ControlRecordType.COMMIT || type == ControlRecordType.ABORT)
                        text.append('=').append(EndTransactionMarker.deserialize(record).coordinatorEpoch());
                }
            }
        }
        return text.toString();
    }

    /** write CODEC MAGIC BASE_OFFSET TIMESTAMP_TYPE LOG_APPEND_TIME PID EPOCH SEQUENCE TRANSACTIONAL record... */
    static String write(String[] words) {
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(1024),
            Byte.parseByte(words[2]), Compression.of(CompressionType.forId(Integer.parseInt(words[1]))).build(),
            timestampType(words[4]), Long.parseLong(words[3]), Long.parseLong(words[5]),
            Long.parseLong(words[6]), Short.parseShort(words[7]), Integer.parseInt(words[8]),
            Boolean.parseBoolean(words[9]), -1);
        for (int index = 10; index < words.length; index++) {
            String[] fields = words[index].split(",");
            List<Header> headers = new ArrayList<>();
            for (int place = 3; place < fields.length; place++) {
                String[] pair = fields[place].split(":");
                headers.add(new RecordHeader(new String(bytes(pair[0]), StandardCharsets.UTF_8), bytes(pair[1])));
            }
            builder.append(Long.parseLong(fields[0]), bytes(fields[1]), bytes(fields[2]), headers.toArray(new Header[0]));
        }
        return "ok " + word(builder.build().buffer());
    }

    static String marker(String[] words) {
        ControlRecordType type = words[1].equals("true") ? ControlRecordType.COMMIT : ControlRecordType.ABORT;
        return "ok " + word(MemoryRecords.withEndTransactionMarker(Long.parseLong(words[2]), Long.parseLong(words[3]),
            Integer.parseInt(words[4]), Long.parseLong(words[5]), Short.parseShort(words[6]),
            new EndTransactionMarker(type, Integer.parseInt(words[7]))).buffer());
    }

    static String downConvert(String[] words) {
        MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(bytes(words[2])));
        MemoryRecords converted =
            (MemoryRecords) records.downConvert(Byte.parseByte(words[1]), 0L, Time.SYSTEM).records();
        return "ok " + word(converted.buffer());
    }

    /** validate VERSION COMPACTED TIMESTAMP_TYPE BEFORE AFTER BYTES_MAX CODEC NOW data: what a leader does, without offsets. */
    static String validate(String[] words) {
        MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(bytes(words[9])));
        ProduceRequest.validateRecords(Short.parseShort(words[1]), records);
        int bytesMax = Integer.parseInt(words[6]);
        CompressionType source = CompressionType.NONE;
        int valid = 0;
        for (MutableRecordBatch batch : records.batches()) { // what UnifiedLog.analyzeAndValidateRecords does
            if (batch.magic() >= 2 && batch.baseOffset() != 0) throw new InvalidRecordException("base offset");
            batch.lastOffset();
            if (batch.sizeInBytes() > bytesMax) throw new RecordTooLargeException("size");
            if (!batch.isValid()) throw new CorruptRecordException("crc");
            valid += batch.sizeInBytes();
            if (batch.compressionType() != CompressionType.NONE) source = batch.compressionType();
        }
        if (valid == 0) return "ok =";
        ByteBuffer whole = records.buffer();
        whole.limit(valid);
        int codec = Integer.parseInt(words[7]);
        Compression target = Compression.of(codec < 0 ? source : CompressionType.forId(codec)).build();
        LogValidator validator = new LogValidator(MemoryRecords.readableRecords(whole), PARTITION,
            new FixedTime(Long.parseLong(words[8])), source, target, Boolean.parseBoolean(words[2]), (byte) 2,
            timestampType(words[3]), Long.parseLong(words[4]), Long.parseLong(words[5]), -1,
            AppendOrigin.CLIENT, MetadataVersion.latestProduction());
        LogValidator.ValidationResult result =
            validator.validateMessagesAndAssignOffsets(PrimitiveRef.ofLong(0), new Metrics(), BufferSupplier.NO_CACHING);
        if (result.messageSizeMaybeChanged)
            for (MutableRecordBatch batch : result.validatedRecords.batches())
                if (batch.sizeInBytes() > bytesMax) throw new RecordTooLargeException("size");
        return "ok " + word(result.validatedRecords.buffer());
    }

    static TimestampType timestampType(String word) {
        return word.equals("1") ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME;
    }

    static class FixedTime implements Time {
        private final long now;

        FixedTime(long now) { this.now = now; }

        public long milliseconds() { return now; }

        public long nanoseconds() { return now * 1_000_000; }

        public void sleep(long ms) { }

        public void waitObject(Object object, java.util.function.Supplier<Boolean> condition, long deadline) { }
    }

    static class Metrics implements LogValidator.MetricsRecorder {
        public void recordInvalidMagic() { }
        public void recordInvalidOffset() { }
        public void recordInvalidSequence() { }
        public void recordInvalidChecksums() { }
        public void recordNoKeyCompactedTopic() { }
    }
}
