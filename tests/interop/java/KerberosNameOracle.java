import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import org.apache.kafka.common.security.kerberos.KerberosName;
import org.apache.kafka.common.security.kerberos.KerberosShortNamer;

/** Maps principals as Kafka does: a line has the principal and the rules, parted by tabs; "=user" comes back, or a sign. */
public final class KerberosNameOracle {
    private static String answer(String[] words) {
        List<String> rules = Arrays.asList(words).subList(1, words.length);
        KerberosShortNamer namer;
        try {
            namer = KerberosShortNamer.fromUnparsedRules("REALM", rules);
        } catch (RuntimeException refused) {
            return "no rule";
        }
        try {
            return "=" + namer.shortName(KerberosName.parse(words[0]));
        } catch (Exception refused) {
            return "no user";
        }
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            System.out.println(answer(line.split("\t", -1)));
            System.out.flush();
        }
    }
}
