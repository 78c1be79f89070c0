"""Buffering: the producer gathers records and sends many in one request; the application does not wait for each.

The same records are sent twice: each waited for, and then all handed over at once. The producer's own figures say how
many requests it took. When its memory is full, send() waits: so a fast writer is slowed down, and not the machine.
"""

import time

from scene import Scene, say, scene

COUNT = 500


def sent(play: Scene, topic: str, *, wait: bool) -> tuple[float, float]:
    """Send records; how many there were in a request on the average, and how long it took."""
    with play.producer(linger_ms=0 if wait else 20) as producer:
        producer.partitions_for(topic)  # to be connected is no part of it
        began = time.monotonic()
        for number in range(COUNT):
            future = producer.send(topic, b"reading %d" % number)
            if wait:
                future.result()
        producer.flush()
        took_s = time.monotonic() - began
        per_request = next(
            metric.value
            for name, metric in producer.metrics().items()
            if name.name == "records-per-request-avg"
        )
    assert isinstance(per_request, float)
    return per_request, took_s


def main() -> None:
    """Play it."""
    with scene(__doc__) as play:
        topic = play.topic()
        alone, alone_s = sent(play, topic, wait=True)
        say(f"one by one: {alone:.0f} record a request, {alone_s:.2f} s for {COUNT}")
        together, together_s = sent(play, topic, wait=False)
        say(f"buffered: {together:.0f} records a request, {together_s:.2f} s for {COUNT}")
        assert alone == 1
        assert together > 20


if __name__ == "__main__":
    main()
