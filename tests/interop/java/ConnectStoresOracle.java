import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.runtime.AbstractStatus;
import org.apache.kafka.connect.runtime.ConnectorStatus;
import org.apache.kafka.connect.runtime.RestartRequest;
import org.apache.kafka.connect.runtime.SessionKey;
import org.apache.kafka.connect.runtime.TargetState;
import org.apache.kafka.connect.runtime.TaskStatus;
import org.apache.kafka.connect.runtime.TopicStatus;
import org.apache.kafka.connect.runtime.WorkerConfig;
import org.apache.kafka.connect.runtime.distributed.Crypto;
import org.apache.kafka.connect.runtime.distributed.DistributedConfig;
import org.apache.kafka.connect.runtime.rest.InternalRequestSignature;
import org.apache.kafka.connect.storage.ClusterConfigState;
import org.apache.kafka.connect.storage.ConfigBackingStore;
import org.apache.kafka.connect.storage.ConnectorOffsetBackingStore;
import org.apache.kafka.connect.storage.KafkaConfigBackingStore;
import org.apache.kafka.connect.storage.KafkaOffsetBackingStore;
import org.apache.kafka.connect.storage.KafkaStatusBackingStore;
import org.apache.kafka.connect.storage.OffsetBackingStore;
import org.apache.kafka.connect.storage.OffsetStorageReaderImpl;
import org.apache.kafka.connect.storage.OffsetStorageWriter;
import org.apache.kafka.connect.util.ConnectorTaskId;
import org.apache.kafka.connect.util.LoggingContext;
import org.apache.kafka.connect.util.SharedTopicAdmin;
import org.apache.kafka.connect.util.TopicAdmin;

/** Writes and reads the three internal topics of a Connect cluster as its workers do: a line is a call, in JSON. */
public class ConnectStoresOracle {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final JsonNodeFactory NODES = JsonNodeFactory.instance;

    private KafkaConfigBackingStore configs;
    private KafkaStatusBackingStore statuses;
    private KafkaOffsetBackingStore offsets;
    private OffsetBackingStore used;
    private ConnectorOffsetBackingStore own;
    private SharedTopicAdmin admin;
    private DistributedConfig config;
    private final List<String> told = new ArrayList<>();

    private static JsonConverter converter(boolean isKey) {
        JsonConverter converter = new JsonConverter();
        converter.configure(Map.of("schemas.enable", "false"), isKey);
        return converter;
    }

    private static Map<String, String> texts(JsonNode node) {
        Map<String, String> found = new HashMap<>();
        node.fields().forEachRemaining(each -> found.put(each.getKey(), each.getValue().textValue()));
        return found;
    }

    private static Map<String, Object> values(JsonNode node) {
        if (node == null || node.isNull()) return null;
        Map<String, Object> found = new HashMap<>();
        node.fields().forEachRemaining(each -> {
            JsonNode value = each.getValue();
            if (value.isNull()) found.put(each.getKey(), null);
            else if (value.isTextual()) found.put(each.getKey(), value.asText());
            else if (value.isBoolean()) found.put(each.getKey(), value.asBoolean());
            else if (value.isFloatingPointNumber()) found.put(each.getKey(), value.asDouble());
            else found.put(each.getKey(), value.asLong());
        });
        return found;
    }

    private void open(JsonNode call) {
        config = new DistributedConfig(texts(call.get("worker")));
        admin = new SharedTopicAdmin(new HashMap<>(config.originals()));
        configs = new KafkaConfigBackingStore(converter(false), config, null, admin, "java-");
        configs.setUpdateListener(new Listener());
        configs.start();
        statuses = new KafkaStatusBackingStore(Time.SYSTEM, converter(false), admin, "java-");
        statuses.configure(config);
        statuses.start();
        offsets = new KafkaOffsetBackingStore(admin, () -> "java-", converter(true));
        offsets.configure(config);
        offsets.start();
        used = offsets;
    }

    private void openOwn(String topic) {
        Map<String, Object> clients = new HashMap<>(config.originals());
        clients.put("auto.offset.reset", "earliest");
        clients.put("enable.auto.commit", "false");
        KafkaOffsetBackingStore store = KafkaOffsetBackingStore.readWriteStore(topic,
            new KafkaProducer<>(clients, new ByteArraySerializer(), new ByteArraySerializer()),
            new KafkaConsumer<>(clients, new ByteArrayDeserializer(), new ByteArrayDeserializer()),
            new TopicAdmin(new HashMap<>(config.originals())), converter(true));
        own = ConnectorOffsetBackingStore.withConnectorAndWorkerStores(() -> LoggingContext.forConnector("c"), offsets,
            store, topic, new TopicAdmin(new HashMap<>(config.originals())));
        own.configure(config);
        own.start();
        used = own;
    }

    private void close() {
        if (configs != null) configs.stop();
        if (statuses != null) statuses.stop();
        if (own != null) own.stop();
        if (offsets != null) offsets.stop();
        if (admin != null) admin.close();
        configs = null;
        statuses = null;
        offsets = null;
        own = null;
        admin = null;
        told.clear();
    }

    private class Listener implements ConfigBackingStore.UpdateListener {
        private synchronized void tell(String text) {
            told.add(text);
        }

        @Override public void onConnectorConfigRemove(String connector) {
            tell("removed " + connector);
        }

        @Override public void onConnectorConfigUpdate(String connector) {
            tell("connector " + connector);
        }

        @Override public void onTaskConfigUpdate(Collection<ConnectorTaskId> tasks) {
            tell("tasks " + new TreeSet<>(tasks));
        }

        @Override public void onConnectorTargetStateChange(String connector) {
            tell("target " + connector);
        }

        @Override public void onSessionKeyUpdate(SessionKey key) {
            tell("key " + Base64.getEncoder().encodeToString(key.key().getEncoded()));
        }

        @Override public void onRestartRequest(RestartRequest asked) {
            tell("restart " + asked.connectorName() + " " + asked.onlyFailed() + " " + asked.includeTasks());
        }

        @Override public void onLoggingLevelUpdate(String namespace, String level) {
            tell("level " + namespace + " " + level);
        }
    }

    private ObjectNode snapshot() throws Exception {
        configs.refresh(20, TimeUnit.SECONDS);
        ClusterConfigState state = configs.snapshot();
        ObjectNode found = NODES.objectNode();
        found.put("offset", state.offset());
        SessionKey key = state.sessionKey();
        found.put("session_key", key == null ? null : Base64.getEncoder().encodeToString(key.key().getEncoded())
            + " " + key.key().getAlgorithm() + " " + key.creationTimestamp());
        found.set("names", JSON.valueToTree(new ArrayList<>(state.connectors())));
        ObjectNode connectors = found.putObject("connectors");
        for (String name : new TreeSet<>(state.connectors())) {
            ObjectNode one = connectors.putObject(name);
            one.set("configs", JSON.valueToTree(new TreeMap<>(state.rawConnectorConfig(name))));
            one.put("target", String.valueOf(state.targetState(name)));
            one.put("count", state.taskCount(name));
            one.put("is_inconsistent", state.inconsistentConnectors().contains(name));
            one.put("is_pending_fencing", state.pendingFencing(name));
            one.set("count_record", JSON.valueToTree(state.taskCountRecord(name)));
            one.set("generation", JSON.valueToTree(state.taskConfigGeneration(name)));
            ArrayNode tasks = one.putArray("tasks");
            for (ConnectorTaskId task : state.tasks(name)) {
                Map<String, String> raw = state.rawTaskConfig(task);
                tasks.add(JSON.valueToTree(raw == null ? null : new TreeMap<>(raw)));
            }
        }
        return found;
    }

    private void putStatus(JsonNode call) {
        AbstractStatus.State state = AbstractStatus.State.valueOf(call.get("state").asText());
        String connector = call.get("connector").asText();
        String worker = call.get("worker").asText();
        int generation = call.get("generation").asInt();
        String trace = call.hasNonNull("trace") ? call.get("trace").asText() : null;
        boolean safe = call.path("safe").asBoolean();
        if (call.hasNonNull("task")) {
            ConnectorTaskId id = new ConnectorTaskId(connector, call.get("task").asInt());
            TaskStatus status = new TaskStatus(id, state, worker, generation, trace);
            if (safe) statuses.putSafe(status);
            else statuses.put(status);
        } else {
            ConnectorStatus status = new ConnectorStatus(connector, state, trace, worker, generation);
            if (safe) statuses.putSafe(status);
            else statuses.put(status);
        }
        statuses.flush();
    }

    private static ObjectNode shown(AbstractStatus<?> status) {
        if (status == null) return null;
        ObjectNode found = NODES.objectNode();
        found.put("state", status.state().name());
        found.put("worker", status.workerId());
        found.put("generation", status.generation());
        found.put("trace", status.trace());
        return found;
    }

    private ObjectNode statusesOf(String connector) {
        ObjectNode found = NODES.objectNode();
        found.set("connector", shown(statuses.get(connector)));
        ObjectNode tasks = found.putObject("tasks");
        for (TaskStatus each : statuses.getAll(connector)) tasks.set(String.valueOf(each.id().task()), shown(each));
        Map<String, String> topics = new TreeMap<>();
        for (TopicStatus each : statuses.getAllTopics(connector)) {
            topics.put(each.topic(), each.connector() + " " + each.task() + " " + each.discoverTimestamp());
        }
        found.set("topics", JSON.valueToTree(topics));
        return found;
    }

    private void putOffsets(JsonNode call) throws Exception {
        OffsetStorageWriter writer =
            new OffsetStorageWriter(used, call.get("connector").asText(), converter(true), converter(false));
        for (JsonNode each : call.get("offsets")) writer.offset(values(each.get(0)), values(each.get(1)));
        writer.beginFlush();
        writer.doFlush((error, ignored) -> { }).get(20, TimeUnit.SECONDS);
    }

    private ArrayNode offsetsOf(JsonNode call) {
        OffsetStorageReaderImpl reader =
            new OffsetStorageReaderImpl(used, call.get("connector").asText(), converter(true), converter(false));
        ArrayNode found = NODES.arrayNode();
        for (JsonNode each : call.get("partitions")) found.add(JSON.valueToTree(reader.offset(values(each))));
        return found;
    }

    private static ConfigDef definition(Class<?> of, Object... given) throws Exception {
        for (Method method : of.getDeclaredMethods()) {
            if (method.getReturnType() == ConfigDef.class && method.getParameterCount() == given.length) {
                method.setAccessible(true);
                return (ConfigDef) method.invoke(null, given);
            }
        }
        throw new AssertionError(of.toString());
    }

    private static JsonNode settings() throws Exception {
        Map<String, ConfigDef.ConfigKey> all = definition(DistributedConfig.class, Crypto.SYSTEM).configKeys();
        ArrayNode found = NODES.arrayNode();
        for (ConfigDef.ConfigKey key : all.values()) {
            if (definition(WorkerConfig.class).configKeys().containsKey(key.name)) continue;
            String text = key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : "-";
            found.add(key.name + " " + key.type + " " + (text == null ? "None" : text) + " " + key.importance);
        }
        return found;
    }

    private JsonNode answer(JsonNode call) throws Exception {
        String name = call.path("name").asText();
        switch (call.get("do").asText()) {
            case "open": open(call); break;
            case "open_own": openOwn(call.get("topic").asText()); break;
            case "check": new DistributedConfig(texts(call.get("worker"))); break;
            case "settings": return settings();
            case "close": close(); break;
            case "put_connector":
                configs.putConnectorConfig(name, texts(call.get("configs")),
                    call.hasNonNull("target") ? TargetState.valueOf(call.get("target").asText()) : null);
                break;
            case "remove_connector": configs.removeConnectorConfig(name); break;
            case "put_tasks": {
                List<Map<String, String>> tasks = new ArrayList<>();
                for (JsonNode each : call.get("tasks")) tasks.add(texts(each));
                configs.putTaskConfigs(name, tasks);
                break;
            }
            case "put_target": configs.putTargetState(name, TargetState.valueOf(call.get("target").asText())); break;
            case "put_task_count": configs.putTaskCountRecord(name, call.get("count").asInt()); break;
            case "put_restart":
                configs.putRestartRequest(new RestartRequest(name, call.get("only_failed").asBoolean(),
                    call.get("include_tasks").asBoolean()));
                break;
            case "put_level": configs.putLoggerLevel(name, call.get("level").asText()); break;
            case "put_key":
                configs.putSessionKey(new SessionKey(new SecretKeySpec(Base64.getDecoder().decode(call.get("key").asText()),
                    call.get("algorithm").asText()), call.get("created_ms").asLong()));
                break;
            case "claim": configs.claimWritePrivileges(); break;
            case "snapshot": return snapshot();
            case "told": {
                configs.refresh(20, TimeUnit.SECONDS);
                JsonNode found = JSON.valueToTree(new ArrayList<>(told));
                told.clear();
                return found;
            }
            case "put_status": putStatus(call); break;
            case "put_topic":
                statuses.put(new TopicStatus(call.get("topic").asText(), call.get("connector").asText(),
                    call.get("task").asInt(), call.get("discovered_ms").asLong()));
                statuses.flush();
                break;
            case "delete_topic":
                statuses.deleteTopic(call.get("connector").asText(), call.get("topic").asText());
                statuses.flush();
                break;
            case "statuses": return statusesOf(call.get("connector").asText());
            case "put_offsets": putOffsets(call); break;
            case "offsets": return offsetsOf(call);
            case "sign": {
                Mac mac = Mac.getInstance(call.get("algorithm").asText());
                mac.init(new SecretKeySpec(Base64.getDecoder().decode(call.get("key").asText()), "HmacSHA256"));
                byte[] body = Base64.getDecoder().decode(call.get("body").asText());
                byte[] signature = mac.doFinal(body);
                boolean valid = new InternalRequestSignature(body, mac, signature).isValid(
                    new SecretKeySpec(Base64.getDecoder().decode(call.get("key").asText()), "HmacSHA256"));
                return NODES.textNode(Base64.getEncoder().encodeToString(signature) + " " + valid);
            }
            default: throw new AssertionError(call.toString());
        }
        return NODES.objectNode();
    }

    public static void main(String[] args) throws Exception {
        ConnectStoresOracle oracle = new ConnectStoresOracle();
        PrintStream out = new PrintStream(System.out, true, "UTF-8");
        System.setOut(System.err);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode found;
            try {
                found = oracle.answer(JSON.readTree(line));
            } catch (Throwable error) {
                ObjectNode refused = NODES.objectNode();
                refused.put("error", error.getClass().getName());
                refused.put("message", error.getMessage());
                found = refused;
            }
            out.println(JSON.writeValueAsString(found));
        }
        oracle.close();
        System.exit(0);
    }
}
