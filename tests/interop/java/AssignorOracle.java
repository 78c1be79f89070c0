import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Scanner;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * Kafka's own assignors, one question and one answer per line.
 *
 * assign NAME TOPICS MEMBER...: TOPICS is topic=racks,racks;topic=..., the racks of a partition are joined by '/'.
 * A MEMBER is id|instance|rack|generation|topics|owned|user data; '-' stands for nothing, owned is topic.partition,...
 * userdata NAME GENERATION OWNED: what a member of that generation sends.
 * subscription VERSION MEMBER, assignment VERSION OWNED USERDATA: the bytes.
 */
public class AssignorOracle {
    public static void main(String[] args) {
        Scanner in = new Scanner(System.in);
        while (in.hasNextLine()) {
            try {
                System.out.println("ok " + answer(in.nextLine().split(" ")));
            } catch (Exception e) {
                System.out.println("failed " + e);
            }
        }
    }

    private static String answer(String[] words) {
        switch (words[0]) {
            case "assign":
                return assign(words);
            case "userdata":
                ConsumerPartitionAssignor member = assignor(words[1]);
                if (!words[3].equals("never"))
                    member.onAssignment(new Assignment(partitions(words[3])),
                        new ConsumerGroupMetadata("g", Integer.parseInt(words[2]), "m", Optional.empty()));
                return hex(member.subscriptionUserData(new HashSet<>()));
            case "subscription":
                return hex(ConsumerProtocol.serializeSubscription(
                    subscription(words[2].split("\\|")), Short.parseShort(words[1])));
            case "assignment":
                return hex(ConsumerProtocol.serializeAssignment(
                    new Assignment(partitions(words[2]), bytes(words[3])), Short.parseShort(words[1])));
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private static String assign(String[] words) {
        Map<String, Node> nodes = new HashMap<>();
        List<PartitionInfo> infos = new ArrayList<>();
        for (String topic : words[2].split(";")) {
            String[] parts = topic.split("=");
            int partition = 0;
            for (String racks : parts[1].split(",")) {
                Node[] replicas = Arrays.stream(racks.split("/"))
                    .map(rack -> nodes.computeIfAbsent(
                        rack, r -> new Node(nodes.size(), "host", 9092, r.equals("-") ? null : r)))
                    .toArray(Node[]::new);
                infos.add(new PartitionInfo(parts[0], partition++, replicas[0], replicas, replicas));
            }
        }
        Cluster cluster = new Cluster("c", nodes.values(), infos, Collections.emptySet(), Collections.emptySet());
        Map<String, Subscription> members = new HashMap<>();
        for (int i = 3; i < words.length; i++) {
            String[] parts = words[i].split("\\|");
            Subscription subscription = subscription(parts);
            subscription.setGroupInstanceId(text(parts[1]));
            members.put(parts[0], subscription);
        }
        Map<String, Assignment> assigned =
            assignor(words[1]).assign(cluster, new GroupSubscription(members)).groupAssignment();
        return new TreeMap<>(assigned).entrySet().stream()
            .map(e -> e.getKey() + "|" + e.getValue().partitions().stream()
                .map(p -> p.topic() + "." + p.partition()).collect(Collectors.joining(",")))
            .collect(Collectors.joining(" "));
    }

    private static ConsumerPartitionAssignor assignor(String name) {
        switch (name) {
            case "range":
                return new RangeAssignor();
            case "roundrobin":
                return new RoundRobinAssignor();
            case "sticky":
                return new StickyAssignor();
            default:
                return new CooperativeStickyAssignor();
        }
    }

    private static Subscription subscription(String[] parts) {
        return new Subscription(Arrays.asList(parts[4].split(",")), bytes(parts[6]), partitions(parts[5]),
            Integer.parseInt(parts[3]), text(parts[2]));
    }

    private static Optional<String> text(String word) {
        return word.equals("-") ? Optional.empty() : Optional.of(word);
    }

    private static List<TopicPartition> partitions(String word) {
        List<TopicPartition> found = new ArrayList<>();
        if (!word.equals("-"))
            for (String each : word.split(",")) {
                int dot = each.lastIndexOf('.');
                found.add(new TopicPartition(each.substring(0, dot), Integer.parseInt(each.substring(dot + 1))));
            }
        return found;
    }

    private static ByteBuffer bytes(String word) {
        if (word.equals("-"))
            return null;
        return ByteBuffer.wrap(HexFormat.of().parseHex(word));
    }

    private static String hex(ByteBuffer data) {
        if (data == null)
            return "-";
        byte[] bytes = new byte[data.remaining()];
        data.get(bytes);
        return HexFormat.of().formatHex(bytes);
    }
}
