"""Peak shaving: a burst is written as fast as it comes, and worked on at the pace that the consumer can stand.

Five thousand requests arrive within a moment. The consumer takes at most 250 a time, and rests in between. How far it
is behind grows to a peak and falls to nothing; it is never asked for more than its pace, and nothing is refused.
"""

import time

from scene import PATIENCE_S, say, scene

BURST = 5_000
AT_ONCE = 250
REST_S = 0.02


def main() -> None:
    """Play it."""
    with scene(__doc__) as play:
        topic = play.topic()
        with play.producer() as producer:
            began = time.monotonic()
            for number in range(BURST):
                producer.send(topic, b"request %d" % number)
            producer.flush()
            burst_s = time.monotonic() - began
        say(f"{BURST} requests were written in {burst_s:.2f} s")
        behind: list[int] = []
        largest = done = 0
        with play.consumer(topic, max_poll_records=AT_ONCE) as consumer:
            began = time.monotonic()
            while done < BURST and time.monotonic() - began < PATIENCE_S:
                records = consumer.poll(200)
                largest = max(largest, len(records))
                done += len(records)
                if records:
                    behind.append(BURST - records[-1].offset - 1)
                time.sleep(REST_S)
            work_s = time.monotonic() - began
        say(f"they were worked on in {work_s:.2f} s, at most {largest} at once")
        say(
            f"behind: {behind[0]} requests at the peak, {behind[len(behind) // 2]} half-way, {behind[-1]} at last"
        )
        assert done == BURST
        assert largest <= AT_ONCE
        assert work_s >= BURST / AT_ONCE * REST_S
        assert behind == sorted(behind, reverse=True)
        assert behind[0] >= BURST - AT_ONCE
        assert behind[-1] == 0


if __name__ == "__main__":
    main()
