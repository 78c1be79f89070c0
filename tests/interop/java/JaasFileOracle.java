import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import javax.security.auth.login.AppConfigurationEntry;
import javax.security.auth.login.Configuration;
import javax.security.auth.login.LoginException;
import java.security.URIParameter;

/** Reads files of login modules as Java does: a line of base64 each; the modules of the section A come back, "!" for a refusal, "-" for no such section. */
public final class JaasFileOracle {
    private static String encode(String text) {
        return "=" + Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
    }

    private static String answer(Path file) {
        try {
            Configuration read = Configuration.getInstance("JavaLoginConfig", new URIParameter(file.toUri()));
            AppConfigurationEntry[] entries = read.getAppConfigurationEntry("A");
            if (entries == null) {
                return "-";
            }
            List<String> modules = new ArrayList<>();
            for (AppConfigurationEntry entry : entries) {
                List<String> words = new ArrayList<>();
                words.add(encode(entry.getLoginModuleName()));
                for (Map.Entry<String, ?> option : new TreeMap<String, Object>(entry.getOptions()).entrySet()) {
                    words.add(encode(option.getKey()));
                    words.add(encode(String.valueOf(option.getValue())));
                }
                modules.add(String.join(" ", words));
            }
            return "+" + String.join(",", modules);
        } catch (Exception refused) {
            return "!";
        }
    }

    public static void main(String[] args) throws Exception {
        Path file = Files.createTempFile("jaas", ".conf");
        file.toFile().deleteOnExit();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Files.write(file, Base64.getDecoder().decode(line.substring(1)));
            System.out.println(answer(file));
            System.out.flush();
        }
    }
}
