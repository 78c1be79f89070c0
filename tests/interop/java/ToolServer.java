import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs the main methods of Kafka's tools in one warm JVM: a tool answers in tens of milliseconds instead of 1.5 seconds.
 *
 * A call on standard input: number of strings, then main class and arguments as strings (length and UTF-8), then the tool's
 * standard input (length or -1, bytes). The answer on standard output: exit code, then what the tool wrote to its standard output
 * and to its standard error (length and bytes each). All numbers are 32 bits, big-endian.
 */
public final class ToolServer {
    /** Thrown where a tool would end the process. */
    private static final class Ended extends RuntimeException {
        Ended(int code) {
            super("exit " + code, null, false, false);
        }
    }

    private static final AtomicReference<Integer> exitCode = new AtomicReference<>();

    /**
     * The threads of one call. Threads that a tool starts belong to the group of the thread that starts them, so what a tool leaves
     * behind (a client that it never closes, and that warns for ever about a broker that is gone) is not heard in later calls.
     */
    private static volatile ThreadGroup call;

    private static boolean isLeftBehind() {
        ThreadGroup group = Thread.currentThread().getThreadGroup();
        return group instanceof Call && group != call;
    }

    private static final class Call extends ThreadGroup {
        Call() {
            super("call");
        }
    }

    /** Stands for good where System.out or System.err stood, as tools keep the stream that they found first. */
    private static final class Switch extends OutputStream {
        volatile OutputStream target = OutputStream.nullOutputStream();

        @Override
        public void write(int b) throws IOException {
            if (!isLeftBehind()) {
                target.write(b);
            }
        }

        @Override
        public void write(byte[] bytes, int offset, int length) throws IOException {
            if (!isLeftBehind()) {
                target.write(bytes, offset, length);
            }
        }
    }

    private static final class Source extends InputStream {
        volatile InputStream target = InputStream.nullInputStream();

        @Override
        public int read() throws IOException {
            return target.read();
        }

        @Override
        public int read(byte[] bytes, int offset, int length) throws IOException {
            return target.read(bytes, offset, length);
        }

        @Override
        public int available() throws IOException {
            return target.available();
        }
    }

    public static void main(String[] ignored) throws IOException, InterruptedException {
        DataInputStream calls = new DataInputStream(System.in);
        DataOutputStream answers = new DataOutputStream(System.out);
        Switch out = new Switch();
        Switch err = new Switch();
        Source in = new Source();
        System.setOut(new PrintStream(out, true));
        System.setErr(new PrintStream(err, true));
        System.setIn(in);
        // Some tools catch every Throwable around their call of exit, this one too, report it and exit again: the first code
        // counts, and nothing is heard after it. An exit in another thread than main's ends that thread alone.
        Exit.Procedure exit = (code, message) -> {
            if (isLeftBehind()) {
                throw new Ended(code);
            }
            exitCode.compareAndSet(null, code);
            System.out.flush();
            System.err.flush();
            out.target = OutputStream.nullOutputStream();
            err.target = OutputStream.nullOutputStream();
            throw new Ended(code);
        };
        Exit.setExitProcedure(exit);
        Exit.setHaltProcedure(exit);
        Exit.setShutdownHookAdder((name, hook) -> { });
        int count;
        while ((count = readCount(calls)) > 0) {
            List<String> words = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                words.add(new String(readBytes(calls), StandardCharsets.UTF_8));
            }
            byte[] input = readBytes(calls);
            in.target = new ByteArrayInputStream(input);
            ByteArrayOutputStream heardOut = new ByteArrayOutputStream();
            ByteArrayOutputStream heardErr = new ByteArrayOutputStream();
            out.target = heardOut;
            err.target = heardErr;
            exitCode.set(null);
            int code = runInItsGroup(words.get(0), words.subList(1, count).toArray(new String[0]));
            System.out.flush();
            System.err.flush();
            answers.writeInt(exitCode.get() == null ? code : exitCode.get());
            writeBytes(answers, heardOut.toByteArray());
            writeBytes(answers, heardErr.toByteArray());
            answers.flush();
        }
    }

    private static int runInItsGroup(String mainClass, String[] arguments) throws InterruptedException {
        AtomicReference<Integer> code = new AtomicReference<>();
        call = new Call();
        Thread thread = new Thread(call, () -> code.set(run(mainClass, arguments)), "main");
        thread.start();
        thread.join();
        return code.get();
    }

    private static int run(String mainClass, String[] arguments) {
        try {
            Class.forName(mainClass).getMethod("main", String[].class).invoke(null, (Object) arguments);
            return 0;
        } catch (InvocationTargetException wrapped) {
            System.err.print("Exception in thread \"main\" ");
            wrapped.getCause().printStackTrace();
            return 1;
        } catch (ReflectiveOperationException error) {
            error.printStackTrace();
            return 1;
        }
    }

    private static int readCount(DataInputStream calls) throws IOException {
        try {
            return calls.readInt();
        } catch (java.io.EOFException end) {
            return 0;
        }
    }

    private static byte[] readBytes(DataInputStream calls) throws IOException {
        int length = calls.readInt();
        return length < 0 ? new byte[0] : calls.readNBytes(length);
    }

    private static void writeBytes(DataOutputStream answers, byte[] bytes) throws IOException {
        answers.writeInt(bytes.length);
        answers.write(bytes);
    }
}
