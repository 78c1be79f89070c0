import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import javax.security.auth.x500.X500Principal;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

/**
 * Answers in base64 what Java and Kafka make of names in certificates: "name DER" the text of a distinguished name,
 * "map RULES NAME" the user's name by ssl.principal.mapping.rules. "!" and the class of the error where there is none.
 */
public class PrincipalOracle {
    public static void main(String[] arguments) throws Exception {
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        String line;
        while ((line = questions.readLine()) != null) {
            answers.println(answer(line.split(" ", -1)));
        }
    }

    private static String answer(String[] words) {
        try {
            String answer = words[0].equals("name")
                ? new X500Principal(Base64.getDecoder().decode(words[1])).getName()
                : SslPrincipalMapper.fromRules(text(words[1])).getName(text(words[2]));
            return "=" + Base64.getEncoder().encodeToString(answer.getBytes(StandardCharsets.UTF_8));
        } catch (Exception error) {
            return "!" + error.getClass().getSimpleName();
        }
    }

    private static String text(String word) {
        return new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8);
    }
}
