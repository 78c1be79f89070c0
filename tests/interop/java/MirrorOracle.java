import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.Configurable;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigValue;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.connect.connector.Connector;
import org.apache.kafka.connect.mirror.ConfigPropertyFilter;
import org.apache.kafka.connect.mirror.GroupFilter;
import org.apache.kafka.connect.mirror.MirrorMakerConfig;
import org.apache.kafka.connect.mirror.RemoteClusterUtils;
import org.apache.kafka.connect.mirror.ReplicationPolicy;
import org.apache.kafka.connect.mirror.SourceAndTarget;
import org.apache.kafka.connect.mirror.TopicFilter;
import org.apache.kafka.connect.source.SourceConnector;

/** Answers what MirrorMaker 2 makes of names, records, offsets and settings: each line is a case in JSON, so are the answers. */
public class MirrorOracle {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String PACKAGE = "org.apache.kafka.connect.mirror.";

    private static Class<?> named(String name) throws Exception {
        return Class.forName(name.contains(".") ? name : PACKAGE + name);
    }

    private static Object made(String name, Class<?>[] types, Object... values) throws Exception {
        Constructor<?> constructor = named(name).getDeclaredConstructor(types);
        constructor.setAccessible(true);
        return constructor.newInstance(values);
    }

    private static Object made(String name) throws Exception {
        return made(name, new Class<?>[0]);
    }

    private static Object call(Object on, String name, Class<?>[] types, Object... values) throws Exception {
        Class<?> at = on.getClass();
        while (true) {
            try {
                Method method = at.getDeclaredMethod(name, types);
                method.setAccessible(true);
                return method.invoke(on, values);
            } catch (NoSuchMethodException missing) {
                at = at.getSuperclass();
                if (at == null) throw missing;
            }
        }
    }

    private static Object call(Object on, String name) throws Exception {
        return call(on, name, new Class<?>[0]);
    }

    private static Map<String, String> texts(JsonNode node) {
        Map<String, String> found = new HashMap<>();
        node.fields().forEachRemaining(each -> found.put(each.getKey(), each.getValue().asText()));
        return found;
    }

    private static void configure(Object plugin, JsonNode configs) {
        if (plugin instanceof Configurable) ((Configurable) plugin).configure(texts(configs));
    }

    private static JsonNode policy(JsonNode node) throws Exception {
        ReplicationPolicy policy = (ReplicationPolicy) made(node.get("class").asText());
        configure(policy, node.get("configs"));
        String alias = node.get("alias").asText();
        String topic = node.get("topic").asText();
        ObjectNode found = JSON.createObjectNode();
        found.put("remote", policy.formatRemoteTopic(alias, topic));
        found.put("source", policy.topicSource(topic));
        found.put("upstream", policy.upstreamTopic(topic));
        found.put("original", policy.originalTopic(topic));
        found.put("heartbeats", policy.heartbeatsTopic());
        found.put("syncs", policy.offsetSyncsTopic(alias));
        found.put("checkpoints", policy.checkpointsTopic(alias));
        found.put("isHeartbeats", policy.isHeartbeatsTopic(topic));
        found.put("isCheckpoints", policy.isCheckpointsTopic(topic));
        found.put("isOurs", policy.isMM2InternalTopic(topic));
        found.put("isInternal", policy.isInternalTopic(topic));
        return found;
    }

    private static JsonNode filter(JsonNode node) throws Exception {
        Object filter = made(node.get("class").asText());
        configure(filter, node.get("configs"));
        ArrayNode found = JSON.createArrayNode();
        for (JsonNode each : node.get("names")) {
            String name = each.asText();
            if (filter instanceof TopicFilter) found.add(((TopicFilter) filter).shouldReplicateTopic(name));
            else if (filter instanceof GroupFilter) found.add(((GroupFilter) filter).shouldReplicateGroup(name));
            else {
                ConfigPropertyFilter properties = (ConfigPropertyFilter) filter;
                found.add(properties.shouldReplicateConfigProperty(name)).add(properties.shouldReplicateSourceDefault(name));
            }
        }
        return found;
    }

    private static TopicPartition partition(JsonNode node) {
        return new TopicPartition(node.get("topic").asText(), node.get("partition").asInt());
    }

    private static Object sync(TopicPartition of, long upstream, long downstream) throws Exception {
        Class<?>[] types = {TopicPartition.class, long.class, long.class};
        return made("OffsetSync", types, of, upstream, downstream);
    }

    private static JsonNode record(JsonNode node) throws Exception {
        Object record;
        switch (node.get("record").asText()) {
            case "sync":
                record = sync(partition(node), node.get("upstream").asLong(), node.get("downstream").asLong());
                break;
            case "checkpoint":
                record = made("Checkpoint",
                    new Class<?>[] {String.class, TopicPartition.class, long.class, long.class, String.class},
                    node.get("group").asText(), partition(node), node.get("upstream").asLong(),
                    node.get("downstream").asLong(), node.get("metadata").asText());
                break;
            default:
                record = made("Heartbeat", new Class<?>[] {String.class, String.class, long.class},
                    node.get("source").asText(), node.get("target").asText(), node.get("timestamp").asLong());
        }
        ObjectNode found = JSON.createObjectNode();
        Base64.Encoder encoder = Base64.getEncoder();
        byte[] key = (byte[]) call(record, "recordKey");
        byte[] value = (byte[]) call(record, "recordValue");
        found.put("text", record.toString());
        found.put("key", encoder.encodeToString(key)).put("value", encoder.encodeToString(value));
        return found;
    }

    private static void add(Object store, TopicPartition of, JsonNode pairs) throws Exception {
        for (JsonNode each : pairs) {
            Object sync = sync(of, each.get(0).asLong(), each.get(1).asLong());
            ConsumerRecord<byte[], byte[]> record = new ConsumerRecord<>("syncs", 0, 0L,
                (byte[]) call(sync, "recordKey"), (byte[]) call(sync, "recordValue"));
            call(store, "handleRecord", new Class<?>[] {ConsumerRecord.class}, record);
        }
    }

    private static void set(Object store, String field, boolean value) throws Exception {
        java.lang.reflect.Field found = named("OffsetSyncStore").getDeclaredField(field);
        found.setAccessible(true);
        found.setBoolean(store, value);
    }

    private static JsonNode store(JsonNode node) throws Exception {
        Object store = made("OffsetSyncStore");
        TopicPartition of = new TopicPartition("t", 0);
        set(store, "initializationMustReadToEnd", node.get("needsEnd").asBoolean());
        add(store, of, node.get("before"));
        set(store, "readToEnd", node.get("atEnd").asBoolean());
        add(store, of, node.get("after"));
        ArrayNode translated = JSON.createArrayNode();
        for (JsonNode each : node.get("ask")) {
            OptionalLong found = (OptionalLong) call(store, "translateDownstream",
                new Class<?>[] {String.class, TopicPartition.class, long.class}, "g", of, each.asLong());
            if (found.isPresent()) translated.add(found.getAsLong());
            else translated.addNull();
        }
        ArrayNode syncs = JSON.createArrayNode();
        if (node.get("before").size() + node.get("after").size() > 0)
            for (int i = 0; i < Long.SIZE; i++) {
                Object sync = call(store, "syncFor", new Class<?>[] {TopicPartition.class, int.class}, of, i);
                syncs.add(JSON.createArrayNode()
                    .add((Long) call(sync, "upstreamOffset")).add((Long) call(sync, "downstreamOffset")));
            }
        ObjectNode found = JSON.createObjectNode();
        found.set("syncs", syncs);
        found.set("translated", translated);
        return found;
    }

    private static JsonNode due(JsonNode node) throws Exception {
        Object state = made("OffsetSyncWriter$PartitionState", new Class<?>[] {long.class}, node.get("lag").asLong());
        ArrayNode found = JSON.createArrayNode();
        for (JsonNode each : node.get("steps")) {
            Object due = call(state, "update", new Class<?>[] {long.class, long.class},
                each.get(0).asLong(), each.get(1).asLong());
            found.add((Boolean) due);
            if ((Boolean) due) call(state, "reset");
        }
        return found;
    }

    private static JsonNode definitions(JsonNode node) throws Exception {
        ConfigDef config = ((Connector) made(node.get("class").asText())).config();
        ArrayNode found = JSON.createArrayNode();
        for (String name : config.configKeys().keySet()) {
            ConfigDef.ConfigKey key = config.configKeys().get(name);
            ObjectNode each = JSON.createObjectNode();
            each.put("name", name).put("type", key.type.toString()).put("importance", key.importance.toString());
            each.put("hasDefault", key.hasDefault()).put("order", key.orderInGroup).put("group", key.group);
            each.put("default", key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : null);
            each.put("width", key.width.toString()).put("shown", key.displayName);
            found.add(each);
        }
        return found;
    }

    private static JsonNode validate(JsonNode node) throws Exception {
        Connector connector = (Connector) made(node.get("class").asText());
        ObjectNode found = JSON.createObjectNode();
        for (ConfigValue each : connector.validate(texts(node.get("configs"))).configValues()) {
            ArrayNode errors = JSON.createArrayNode();
            each.errorMessages().forEach(errors::add);
            found.set(each.name(), errors);
        }
        return found;
    }

    private static Map<String, Object> place(JsonNode node) {
        return node.isNull() ? null : JSON.convertValue(node, Map.class);
    }

    private static JsonNode offsets(JsonNode node) throws Exception {
        SourceConnector connector = (SourceConnector) made(node.get("class").asText());
        Map<Map<String, ?>, Map<String, ?>> offsets = new HashMap<>();
        offsets.put(place(node.get("partition")), place(node.get("offset")));
        return JSON.getNodeFactory().booleanNode(connector.alterOffsets(new HashMap<>(), offsets));
    }

    private static JsonNode maker(JsonNode node) throws Exception {
        Map<String, String> configs = texts(node.get("configs"));
        configs.put("plugin.discovery", "SERVICE_LOAD"); // reads no jars
        MirrorMakerConfig config = new MirrorMakerConfig(configs);
        ObjectNode pairs = JSON.createObjectNode();
        for (SourceAndTarget pair : config.clusterPairs()) {
            ObjectNode each = JSON.createObjectNode();
            each.set("worker", JSON.valueToTree(new TreeMap<>(config.workerConfig(pair))));
            for (String name : List.of("Source", "Checkpoint", "Heartbeat")) {
                Class<?> connector = named("Mirror" + name + "Connector");
                each.set(name, JSON.valueToTree(new TreeMap<>(config.connectorBaseConfig(pair, connector))));
            }
            pairs.set(pair.toString(), each);
        }
        return pairs;
    }

    /** Steps of one group: what it has committed at the source, and at times what it has at the target. */
    private static JsonNode checkpoints(JsonNode node) throws Exception {
        Object syncs = made("OffsetSyncStore");
        set(syncs, "initializationMustReadToEnd", false);
        set(syncs, "readToEnd", true);
        Map<String, Map<TopicPartition, ?>> last = new HashMap<>();
        Object store = made("CheckpointStore", new Class<?>[] {Map.class}, last);
        Map<String, Map<TopicPartition, OffsetAndMetadata>> idle = new HashMap<>();
        ReplicationPolicy policy = (ReplicationPolicy) made("DefaultReplicationPolicy");
        Object task = made("MirrorCheckpointTask", new Class<?>[] {String.class, String.class, ReplicationPolicy.class,
            named("OffsetSyncStore"), java.util.Set.class, Map.class, named("CheckpointStore")},
            "A", "B", policy, syncs, java.util.Set.of("g"), idle, store);
        ArrayNode found = JSON.createArrayNode();
        for (JsonNode step : node.get("steps")) {
            TopicPartition of = new TopicPartition(step.get("topic").asText(), 0);
            JsonNode value = step.get("value");
            ArrayNode outcome = JSON.createArrayNode();
            switch (step.get("kind").asText()) {
                case "sync":
                    add(syncs, of, JSON.createArrayNode().add(value));
                    break;
                case "offset": {
                    Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                    offsets.put(of, value.isNull() ? null : new OffsetAndMetadata(value.asLong(), "m"));
                    Map<?, ?> news = (Map<?, ?>) call(task, "checkpointsForGroup",
                        new Class<?>[] {Map.class, String.class}, offsets, "g");
                    call(store, "update", new Class<?>[] {String.class, Map.class}, "g", news);
                    for (Object each : news.values()) outcome.add(each.toString());
                    break;
                }
                default: {
                    Map<TopicPartition, OffsetAndMetadata> target = new HashMap<>();
                    if (!value.isNull()) target.put(of, new OffsetAndMetadata(value.asLong()));
                    idle.put("g", target);
                    Map<?, ?> synced = (Map<?, ?>) call(task, "syncGroupOffset");
                    if (synced.get("g") != null)
                        ((Map<?, ?>) synced.get("g")).forEach((partition, offset) ->
                            outcome.add(partition + "=" + ((OffsetAndMetadata) offset).offset()));
                }
            }
            found.add(outcome);
        }
        return found;
    }

    private static JsonNode flow(JsonNode node) throws Exception {
        Object policy = made(node.get("policy").asText());
        Object topics = made("DefaultTopicFilter");
        Object properties = made("DefaultConfigPropertyFilter");
        for (Object each : List.of(policy, topics, properties)) configure(each, node.get("configs"));
        Object connector = made("MirrorSourceConnector", new Class<?>[] {SourceAndTarget.class, ReplicationPolicy.class,
            TopicFilter.class, ConfigPropertyFilter.class}, new SourceAndTarget("A", "B"), policy, topics, properties);
        ObjectNode found = JSON.createObjectNode();
        ArrayNode taken = JSON.createArrayNode();
        ArrayNode cycles = JSON.createArrayNode();
        for (JsonNode each : node.get("topics")) {
            taken.add((Boolean) call(connector, "shouldReplicateTopic", new Class<?>[] {String.class}, each.asText()));
            cycles.add((Boolean) call(connector, "isCycle", new Class<?>[] {String.class}, each.asText()));
        }
        ArrayNode acls = JSON.createArrayNode();
        for (JsonNode each : node.get("acls")) {
            AclBinding acl = new AclBinding(
                new ResourcePattern(ResourceType.TOPIC, each.get(0).asText(), PatternType.LITERAL),
                new AccessControlEntry("User:u", "*", AclOperation.fromCode((byte) each.get(1).asInt()),
                    AclPermissionType.fromCode((byte) each.get(2).asInt())));
            Class<?>[] types = {AclBinding.class};
            if (!(Boolean) call(connector, "shouldReplicateAcl", types, acl)) acls.addNull();
            else {
                AclBinding target = (AclBinding) call(connector, "targetAclBinding", types, acl);
                acls.add(JSON.createArrayNode().add(target.pattern().name())
                    .add(target.entry().operation().code()).add(target.entry().permissionType().code()));
            }
        }
        found.set("taken", taken);
        found.set("cycles", cycles);
        found.set("acls", acls);
        return found;
    }

    private static JsonNode metrics(JsonNode node) throws Exception {
        Map<String, String> configs = texts(node.get("configs"));
        Object config = made("MirrorSourceTaskConfig", new Class<?>[] {Map.class}, configs);
        Object metrics = made("MirrorSourceMetrics", new Class<?>[] {config.getClass()}, config);
        java.lang.reflect.Field field = metrics.getClass().getDeclaredField("metrics");
        field.setAccessible(true);
        ObjectNode found = JSON.createObjectNode();
        ((Metrics) field.get(metrics)).metrics().keySet().forEach(each -> {
            if (each.group().startsWith("Mirror"))
                found.set(each.group() + " " + each.name(), JSON.valueToTree(new TreeMap<>(each.tags())));
        });
        return found;
    }

    private static JsonNode translate(JsonNode node) throws Exception {
        Map<String, Object> configs = new HashMap<>(texts(node.get("configs")));
        Map<TopicPartition, OffsetAndMetadata> offsets = RemoteClusterUtils.translateOffsets(
            configs, node.get("alias").asText(), node.get("group").asText(), Duration.ofSeconds(20));
        ObjectNode found = JSON.createObjectNode();
        offsets.forEach((partition, offset) -> found.put(partition.toString(), offset.offset()));
        found.put("hops", RemoteClusterUtils.replicationHops(configs, node.get("alias").asText()));
        found.set("upstream", JSON.valueToTree(new TreeSet<>(RemoteClusterUtils.upstreamClusters(configs))));
        found.set("heartbeats", JSON.valueToTree(new TreeSet<>(RemoteClusterUtils.heartbeatTopics(configs))));
        found.set("checkpoints", JSON.valueToTree(new TreeSet<>(RemoteClusterUtils.checkpointTopics(configs))));
        return found;
    }

    private static JsonNode answer(JsonNode node) throws Exception {
        switch (node.get("op").asText()) {
            case "policy": return policy(node);
            case "filter": return filter(node);
            case "record": return record(node);
            case "store": return store(node);
            case "due": return due(node);
            case "definitions": return definitions(node);
            case "validate": return validate(node);
            case "offsets": return offsets(node);
            case "checkpoints": return checkpoints(node);
            case "flow": return flow(node);
            case "metrics": return metrics(node);
            case "translate": return translate(node);
            default: return maker(node);
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        for (String line; (line = in.readLine()) != null;) {
            JsonNode answer;
            try {
                answer = answer(JSON.readTree(line));
            } catch (Throwable error) {
                while (error instanceof InvocationTargetException) error = error.getCause();
                answer = JSON.createObjectNode().put("error", error.getClass().getName()).put("message", error.getMessage());
            }
            out.println(JSON.writeValueAsString(answer));
        }
    }
}
