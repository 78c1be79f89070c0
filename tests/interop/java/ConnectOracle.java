import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.text.ParseException;
import java.text.SimpleDateFormat;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Date;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TimeZone;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigValue;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.Decimal;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.data.Values;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.header.Headers;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/** Answers what Apache Kafka Connect makes of values: each line is a case in JSON, so are the answers. */
public class ConnectOracle {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final JsonNodeFactory NODES = JsonNodeFactory.instance;

    private static Object value(JsonNode node) {
        if (node == null || node.isNull()) return null;
        JsonNode of = node.get(1);
        switch (node.get(0).asText()) {
            case "Byte": return (byte) of.asInt();
            case "Short": return (short) of.asInt();
            case "Integer": return of.asInt();
            case "Long": return of.asLong();
            case "Float": return Float.intBitsToFloat(of.asInt());
            case "Double": return Double.longBitsToDouble(of.asLong());
            case "Boolean": return of.asBoolean();
            case "String": return of.asText();
            case "bytes": return Base64.getDecoder().decode(of.asText());
            case "buffer": return ByteBuffer.wrap(Base64.getDecoder().decode(of.asText()));
            case "Date": return new Date(of.asLong());
            case "BigDecimal": return new BigDecimal(of.asText());
            case "List": {
                List<Object> list = new ArrayList<>();
                for (JsonNode each : of) list.add(value(each));
                return list;
            }
            case "Map": {
                Map<Object, Object> map = new HashMap<>();
                for (JsonNode each : of) map.put(value(each.get(0)), value(each.get(1)));
                return map;
            }
            case "Struct": {
                Struct struct = new Struct(schema(of));
                for (JsonNode each : node.get(2)) struct.put(each.get(0).asText(), value(each.get(1)));
                return struct;
            }
            default: throw new AssertionError(node.toString());
        }
    }

    private static JsonNode tagged(String tag, JsonNode of) {
        return NODES.arrayNode().add(tag).add(of);
    }

    private static JsonNode node(Object value) {
        if (value == null) return NODES.nullNode();
        if (value instanceof byte[]) return tagged("bytes", NODES.textNode(Base64.getEncoder().encodeToString((byte[]) value)));
        if (value instanceof ByteBuffer)
            return tagged("buffer", NODES.textNode(Base64.getEncoder().encodeToString(((ByteBuffer) value).array())));
        if (value instanceof Float) return tagged("Float", NODES.numberNode(Float.floatToIntBits((Float) value)));
        if (value instanceof Double) return tagged("Double", NODES.numberNode(Double.doubleToLongBits((Double) value)));
        if (value instanceof Boolean) return tagged("Boolean", NODES.booleanNode((Boolean) value));
        if (value instanceof Date) return tagged("Date", NODES.numberNode(((Date) value).getTime()));
        if (value instanceof BigDecimal) return tagged("BigDecimal", NODES.textNode(value.toString()));
        if (value instanceof Number) return tagged(value.getClass().getSimpleName(), NODES.numberNode(((Number) value).longValue()));
        if (value instanceof String) return tagged("String", NODES.textNode((String) value));
        if (value instanceof List) {
            ArrayNode list = NODES.arrayNode();
            for (Object each : (List<?>) value) list.add(node(each));
            return tagged("List", list);
        }
        if (value instanceof Map) {
            ArrayNode map = NODES.arrayNode();
            for (Map.Entry<?, ?> each : ((Map<?, ?>) value).entrySet())
                map.add(NODES.arrayNode().add(node(each.getKey())).add(node(each.getValue())));
            return tagged("Map", map);
        }
        if (value instanceof Struct) {
            Struct struct = (Struct) value;
            ArrayNode fields = NODES.arrayNode();
            for (Field field : struct.schema().fields())
                fields.add(NODES.arrayNode().add(field.name()).add(node(struct.getWithoutDefault(field.name()))));
            return NODES.arrayNode().add("Struct").add(node(struct.schema())).add(fields);
        }
        throw new AssertionError(value.getClass().toString());
    }

    private static String text(JsonNode node) {
        return node == null || node.isNull() ? null : node.asText();
    }

    private static boolean has(JsonNode node, String name) {
        return node.has(name) && !node.get(name).isNull();
    }

    private static Schema schema(JsonNode node) {
        if (node == null || node.isNull()) return null;
        SchemaBuilder builder;
        Schema.Type type = Schema.Type.valueOf(node.get("type").asText());
        if (type == Schema.Type.ARRAY) builder = SchemaBuilder.array(schema(node.get("value")));
        else if (type == Schema.Type.MAP) builder = SchemaBuilder.map(schema(node.get("key")), schema(node.get("value")));
        else builder = SchemaBuilder.type(type);
        if (type == Schema.Type.STRUCT)
            for (JsonNode each : node.get("fields")) builder.field(each.get(0).asText(), schema(each.get(1)));
        if (node.get("optional").asBoolean()) builder.optional();
        if (has(node, "name")) builder.name(node.get("name").asText());
        if (has(node, "version")) builder.version(node.get("version").asInt());
        if (has(node, "doc")) builder.doc(node.get("doc").asText());
        if (has(node, "parameters"))
            node.get("parameters").fields().forEachRemaining(each -> builder.parameter(each.getKey(), each.getValue().asText()));
        if (has(node, "default")) builder.defaultValue(value(node.get("default")));
        return builder.build();
    }

    private static JsonNode node(Schema schema) {
        if (schema == null) return NODES.nullNode();
        ObjectNode node = NODES.objectNode();
        node.put("type", schema.type().toString());
        node.put("optional", schema.isOptional());
        node.put("name", schema.name());
        node.put("version", schema.version());
        node.put("doc", schema.doc());
        ObjectNode parameters = NODES.objectNode();
        if (schema.parameters() != null) schema.parameters().forEach(parameters::put);
        node.set("parameters", schema.parameters() == null ? NODES.nullNode() : parameters);
        node.set("default", node(schema.defaultValue()));
        ArrayNode fields = NODES.arrayNode();
        if (schema.type() == Schema.Type.STRUCT)
            for (Field field : schema.fields()) fields.add(NODES.arrayNode().add(field.name()).add(node(field.schema())));
        node.set("fields", fields);
        node.set("key", schema.type() == Schema.Type.MAP ? node(schema.keySchema()) : NODES.nullNode());
        boolean hasValues = schema.type() == Schema.Type.MAP || schema.type() == Schema.Type.ARRAY;
        node.set("value", hasValues ? node(schema.valueSchema()) : NODES.nullNode());
        return node;
    }

    private static ConnectRecord<?> record(JsonNode node) {
        Headers headers = new ConnectHeaders();
        for (JsonNode each : node.get("headers")) headers.add(each.get(0).asText(), value(each.get(2)), schema(each.get(1)));
        String topic = text(node.get("topic"));
        Integer partition = has(node, "partition") ? node.get("partition").asInt() : null;
        Long timestamp = has(node, "timestamp") ? node.get("timestamp").asLong() : null;
        Schema keySchema = schema(node.get("keySchema"));
        Object key = value(node.get("key"));
        Schema valueSchema = schema(node.get("valueSchema"));
        Object value = value(node.get("value"));
        if (has(node, "offset"))
            return new SinkRecord(topic, partition, keySchema, key, valueSchema, value, node.get("offset").asLong(),
                timestamp, TimestampType.CREATE_TIME, headers);
        return new SourceRecord(null, null, topic, partition, keySchema, key, valueSchema, value, timestamp, headers);
    }

    private static JsonNode node(ConnectRecord<?> record) {
        if (record == null) return NODES.nullNode();
        ObjectNode node = NODES.objectNode();
        node.put("topic", record.topic());
        node.put("partition", record.kafkaPartition());
        node.set("keySchema", node(record.keySchema()));
        node.set("key", node(record.key()));
        node.set("valueSchema", node(record.valueSchema()));
        node.set("value", node(record.value()));
        node.put("timestamp", record.timestamp());
        ArrayNode headers = NODES.arrayNode();
        for (Header header : record.headers())
            headers.add(NODES.arrayNode().add(header.key()).add(node(header.schema())).add(node(header.value())));
        node.set("headers", headers);
        node.put("text", record.toString());
        return node;
    }

    private static JsonNode node(SchemaAndValue both) {
        if (both == null) return node(SchemaAndValue.NULL);
        return NODES.objectNode().<ObjectNode>set("schema", node(both.schema())).set("value", node(both.value()));
    }

    private static Map<String, String> config(JsonNode node) {
        Map<String, String> config = new HashMap<>();
        node.get("config").fields().forEachRemaining(each -> config.put(each.getKey(), text(each.getValue())));
        return config;
    }

    private static byte[] bytes(JsonNode node) {
        return node.isNull() ? null : Base64.getDecoder().decode(node.asText());
    }

    private static JsonNode bytes(byte[] bytes) {
        return bytes == null ? NODES.nullNode() : NODES.textNode(Base64.getEncoder().encodeToString(bytes));
    }

    private static Object plugin(JsonNode asked) throws Exception {
        return Class.forName(asked.get("class").asText()).getDeclaredConstructor().newInstance();
    }

    private static Converter converter(JsonNode asked) throws Exception {
        Converter converter = (Converter) plugin(asked);
        converter.configure(config(asked), asked.get("isKey").asBoolean());
        return converter;
    }

    private static HeaderConverter headerConverter(JsonNode asked) throws Exception {
        HeaderConverter converter = (HeaderConverter) plugin(asked);
        Map<String, String> config = config(asked);
        config.put("converter.type", "header");
        converter.configure(config);
        return converter;
    }

    private static Object converted(JsonNode asked) {
        Schema schema = schema(asked.get("schema"));
        Object value = value(asked.get("value"));
        switch (asked.get("to").asText()) {
            case "Boolean": return Values.convertToBoolean(schema, value);
            case "Byte": return Values.convertToByte(schema, value);
            case "Short": return Values.convertToShort(schema, value);
            case "Integer": return Values.convertToInteger(schema, value);
            case "Long": return Values.convertToLong(schema, value);
            case "Float": return Values.convertToFloat(schema, value);
            case "Double": return Values.convertToDouble(schema, value);
            case "String": return Values.convertToString(schema, value);
            case "List": return Values.convertToList(schema, value);
            case "Map": return Values.convertToMap(schema, value);
            case "Time": return Values.convertToTime(schema, value);
            case "Date": return Values.convertToDate(schema, value);
            case "Timestamp": return Values.convertToTimestamp(schema, value);
            case "Decimal": return Values.convertToDecimal(schema, value, 2);
            default: throw new AssertionError(asked.toString());
        }
    }

    private static JsonNode validated(ConfigDef def, Map<String, String> config) {
        ObjectNode node = NODES.objectNode();
        for (ConfigValue each : def.validate(config)) {
            ArrayNode errors = NODES.arrayNode();
            each.errorMessages().forEach(errors::add);
            ConfigDef.Type type = def.configKeys().get(each.name()).type;
            node.set(each.name(), NODES.arrayNode().add(ConfigDef.convertToString(each.value(), type)).add(errors));
        }
        return node;
    }

    private static JsonNode definition(ConfigDef def) {
        ArrayNode node = NODES.arrayNode();
        for (ConfigDef.ConfigKey key : def.configKeys().values()) {
            ArrayNode one = NODES.arrayNode().add(key.name).add(key.type.toString()).add(key.importance.toString());
            one.add(key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : "none");
            one.add(key.documentation).add(key.group).add(key.orderInGroup).add(key.width.toString()).add(key.displayName);
            node.add(one);
        }
        return node;
    }

    private static ConfigDef definitionOf(Object plugin) {
        if (plugin instanceof Transformation) return ((Transformation<?>) plugin).config();
        if (plugin instanceof Predicate) return ((Predicate<?>) plugin).config();
        if (plugin instanceof HeaderConverter) return ((HeaderConverter) plugin).config();
        return ((Converter) plugin).config();
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static JsonNode answer(JsonNode asked) throws Exception {
        ObjectNode answer = NODES.objectNode();
        switch (asked.get("do").asText()) {
            case "transform": {
                Transformation transformation = (Transformation) plugin(asked);
                transformation.configure(config(asked));
                return answer.set("record", node(transformation.apply(record(asked.get("record")))));
            }
            case "predicate": {
                Predicate predicate = (Predicate) plugin(asked);
                predicate.configure(config(asked));
                return answer.put("test", predicate.test(record(asked.get("record"))));
            }
            case "from": {
                Schema schema = schema(asked.get("schema"));
                return answer.set("bytes", bytes(converter(asked).fromConnectData("t", schema, value(asked.get("value")))));
            }
            case "to": return answer.set("both", node(converter(asked).toConnectData("t", bytes(asked.get("bytes")))));
            case "fromHeader": {
                Schema schema = schema(asked.get("schema"));
                return answer.set("bytes", bytes(headerConverter(asked).fromConnectHeader("t", "h", schema, value(asked.get("value")))));
            }
            case "toHeader": return answer.set("both", node(headerConverter(asked).toConnectHeader("t", "h", bytes(asked.get("bytes")))));
            case "parse": return answer.set("both", node(Values.parseString(asked.get("text").asText())));
            case "convert": return answer.set("value", node(converted(asked)));
            case "infer": return answer.set("schema", node(Values.inferSchema(value(asked.get("value")))));
            case "text": return answer.put("text", String.valueOf(value(asked.get("value"))));
            case "validate": return answer.set("values", validated(definitionOf(plugin(asked)), config(asked)));
            case "definition": return answer.set("keys", definition(definitionOf(plugin(asked))));
            case "format": {
                SimpleDateFormat format = new SimpleDateFormat(asked.get("pattern").asText());
                format.setTimeZone(TimeZone.getTimeZone("UTC"));
                if (has(asked, "millis")) return answer.put("text", format.format(new Date(asked.get("millis").asLong())));
                try {
                    return answer.put("millis", format.parse(asked.get("text").asText()).getTime());
                } catch (ParseException unreadable) {
                    return answer.put("millis", (Long) null);
                }
            }
            default: throw new AssertionError(asked.toString());
        }
    }

    public static void main(String[] args) throws Exception {
        TimeZone.setDefault(TimeZone.getTimeZone("UTC"));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, "UTF-8");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode answer;
            try {
                answer = answer(JSON.readTree(line));
            } catch (RuntimeException | StackOverflowError refused) {
                answer = NODES.objectNode().set("error", NODES.arrayNode().add(refused.getClass().getName()).add(refused.getMessage()));
            }
            out.println(answer);
        }
    }
}
