import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;

/**
 * Leaves threads behind that write during a later call, as tools do that never close a client. Argument: how many threads; 0 is the
 * later call, which lasts until those of the earlier one have written.
 */
public final class LeftBehind {
    private static final CountDownLatch later = new CountDownLatch(1);
    private static final List<Thread> left = new CopyOnWriteArrayList<>();

    public static void main(String[] arguments) throws InterruptedException {
        System.out.println("left");
        System.err.println("left");
        int count = Integer.parseInt(arguments[0]);
        for (int i = 0; i < count; i++) {
            Thread thread = new Thread(LeftBehind::warn);
            thread.setDaemon(true);
            thread.start();
            left.add(thread);
        }
        if (count == 0) {
            later.countDown();
            for (Thread thread : left) {
                thread.join();
            }
        }
    }

    private static void warn() {
        try {
            later.await();
            for (int i = 0; i < 100; i++) {
                System.out.println("late");
                System.err.println("late");
            }
        } catch (InterruptedException end) {
            Thread.currentThread().interrupt();
        }
    }
}
