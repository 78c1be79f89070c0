import java.lang.reflect.Field;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Scanner;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.common.message.JoinGroupResponseData.JoinGroupResponseMember;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.connect.runtime.distributed.EagerAssignor;
import org.apache.kafka.connect.runtime.distributed.ConnectProtocol;
import org.apache.kafka.connect.runtime.distributed.ExtendedWorkerState;
import org.apache.kafka.connect.runtime.distributed.IncrementalCooperativeAssignor;
import org.apache.kafka.connect.runtime.distributed.IncrementalCooperativeConnectProtocol;
import org.apache.kafka.connect.runtime.distributed.WorkerCoordinator;
import org.apache.kafka.connect.storage.ClusterConfigState;
import org.apache.kafka.connect.util.ConnectorTaskId;

/**
 * Kafka Connect's own assignors, one question and one answer per line.
 *
 * new MAXDELAY: forget everything.
 * assign NOW GENERATION LASTCOMPLETED LEADER PROTOCOL OFFSET CONFIGURED MEMBER...: CONFIGURED is name=tasks,... or '-',
 * a MEMBER is id=metadata. Answers with id=assignment of each, and where every connector and task is then.
 * offer eager|compatible|sessioned METADATA: the protocols with the metadata that a worker of that state offers.
 */
public class ConnectAssignorOracle {
    private static long now;
    private static IncrementalCooperativeAssignor incremental;
    private static final EagerAssignor EAGER = new EagerAssignor(new LogContext());

    public static void main(String[] args) {
        Scanner in = new Scanner(System.in);
        while (in.hasNextLine()) {
            try {
                System.out.println("ok " + answer(in.nextLine().split(" ")));
            } catch (Throwable e) {
                System.out.println("failed " + e);
            }
        }
    }

    private static String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "new":
                Time time = (Time) Proxy.newProxyInstance(Time.class.getClassLoader(), new Class<?>[] {Time.class},
                    (proxy, method, given) -> now);
                incremental = new IncrementalCooperativeAssignor(
                    new LogContext(), time, Integer.parseInt(words[1]));
                return "";
            case "assign":
                return assign(words);
            case "offer":
                ExtendedWorkerState state =
                    IncrementalCooperativeConnectProtocol.deserializeMetadata(bytes(words[2]));
                return (words[1].equals("eager")
                    ? ConnectProtocol.metadataRequest(state)
                    : IncrementalCooperativeConnectProtocol.metadataRequest(state, words[1].equals("sessioned")))
                    .stream()
                    .map(each -> each.name() + "=" + HexFormat.of().formatHex(each.metadata()))
                    .collect(Collectors.joining(" "));
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private static String assign(String[] words) throws Exception {
        now = Long.parseLong(words[1]);
        Leader leader = (Leader) unsafe().allocateInstance(Leader.class);
        leader.generation = Integer.parseInt(words[2]);
        leader.lastCompleted = Integer.parseInt(words[3]);
        leader.config = configured(Long.parseLong(words[6]), words[7]);
        List<JoinGroupResponseMember> members = Arrays.stream(words).skip(8).map(word -> {
            String[] parts = word.split("=");
            return new JoinGroupResponseMember()
                .setMemberId(parts[0]).setMetadata(HexFormat.of().parseHex(parts[1]));
        }).collect(Collectors.toList());
        Map<String, ByteBuffer> assigned = words[5].equals("default")
            ? EAGER.performAssignment(words[4], words[5], members, leader)
            : incremental.performAssignment(words[4], words[5], members, leader);
        return new TreeMap<>(assigned).entrySet().stream()
            .map(each -> each.getKey() + "=" + HexFormat.of().formatHex(each.getValue().array()))
            .collect(Collectors.joining(" "));
    }

    private static sun.misc.Unsafe unsafe() throws Exception {
        Field field = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
        field.setAccessible(true);
        return (sun.misc.Unsafe) field.get(null);
    }

    private static ClusterConfigState configured(long offset, String word) {
        Map<String, Integer> counts = new HashMap<>();
        Map<String, Map<String, String>> configs = new HashMap<>();
        Map<ConnectorTaskId, Map<String, String>> tasks = new HashMap<>();
        for (String each : word.equals("-") ? new String[0] : word.split(",")) {
            String[] parts = each.split("=");
            counts.put(parts[0], Integer.parseInt(parts[1]));
            configs.put(parts[0], Collections.emptyMap());
            for (int task = 0; task < counts.get(parts[0]); task++)
                tasks.put(new ConnectorTaskId(parts[0], task), Collections.emptyMap());
        }
        return new ClusterConfigState(offset, null, counts, configs, Collections.emptyMap(), tasks,
            Collections.emptyMap(), Collections.emptyMap(), Collections.emptyMap(), Collections.emptySet(),
            Collections.emptySet());
    }

    private static ByteBuffer bytes(String word) {
        return ByteBuffer.wrap(HexFormat.of().parseHex(word));
    }

    /** What an assignor asks the coordinator; it is made without its constructor, which would connect to a broker. */
    private static class Leader extends WorkerCoordinator {
        int generation;
        int lastCompleted;
        ClusterConfigState config;

        Leader() {
            super(null, null, null, null, null, null, null, null, null, null, 0);
        }

        @Override
        public int generationId() {
            return generation;
        }

        @Override
        public int lastCompletedGenerationId() {
            return lastCompleted;
        }

        @Override
        public String memberId() {
            return "";
        }

        @Override
        public ClusterConfigState configSnapshot() {
            return config;
        }

        @Override
        public ClusterConfigState configFreshSnapshot() {
            return config;
        }

        @Override
        public void leaderState(LeaderState update) {
        }
    }
}
