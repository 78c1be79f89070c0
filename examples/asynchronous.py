"""Asynchronous communication: whoever asks goes on with its work; the answer comes when it is ready.

A client writes questions to one topic and names itself in a header. A service, which is slower, writes the answers to
another topic. The client has asked everything, and done something else, before the first answer is there.
"""

import threading
import time

from scene import PATIENCE_S, Scene, read, say, scene

COUNT = 10
THINKING_S = 0.05


def service(play: Scene, questions: str, answers: str) -> None:
    """Answer each question after a while."""
    with play.consumer(questions) as consumer, play.producer() as producer:
        for record in read(consumer, COUNT):
            time.sleep(THINKING_S)
            producer.send(answers, b"%d" % int(record.value) ** 2, record.key, headers=record.headers)
            producer.flush()


def main() -> None:
    """Play it."""
    with scene(__doc__) as play:
        questions, answers = play.topic(), play.topic()
        with play.producer() as producer, play.consumer(answers) as consumer:
            began = time.monotonic()
            for number in range(COUNT):
                producer.send(questions, b"%d" % number, b"question %d" % number, headers=[("from", b"me")])
            asked_s = time.monotonic() - began
            say(f"{COUNT} questions were handed over in {asked_s * 1000:.0f} ms; nobody listens yet")
            thread = threading.Thread(target=service, args=(play, questions, answers))
            thread.start()
            found = {record.key: int(record.value) for record in read(consumer, COUNT)}
            answered_s = time.monotonic() - began
            thread.join(PATIENCE_S)
        say(f"the answers were there after {answered_s:.1f} s")
        assert found == {b"question %d" % number: number**2 for number in range(COUNT)}
        assert answered_s - asked_s > COUNT * THINKING_S


if __name__ == "__main__":
    main()
