/** Leaves threads behind that write, as tools do that never close a client. Arguments: how many threads, how long main stays (ms). */
public final class LeftBehind {
    public static void main(String[] arguments) throws InterruptedException {
        System.out.println("left");
        System.err.println("left");
        for (int i = 0; i < Integer.parseInt(arguments[0]); i++) {
            Thread thread = new Thread(LeftBehind::warn);
            thread.setDaemon(true);
            thread.start();
        }
        if (arguments.length > 1) {
            Thread.sleep(Long.parseLong(arguments[1]));
        }
    }

    private static void warn() {
        try {
            Thread.sleep(100);
            for (int i = 0; i < 100; i++) {
                Thread.sleep(20);
                System.out.println("late");
                System.err.println("late");
            }
        } catch (InterruptedException end) {
            Thread.currentThread().interrupt();
        }
    }
}
