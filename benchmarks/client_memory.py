"""What partitions cost a client: the most memory that a producer or a consumer of all of them needs.

``python -m benchmarks.client_memory ROLE BOOTSTRAP TOPIC PARTITIONS`` is that client, in a process of its own, and
prints its peak: a producer keeps a batch of each partition that it writes to, a consumer what it has fetched of each.
"""

import subprocess
import sys
from pathlib import Path
from typing import Final

from pkafka.clients.consumer import Consumer
from pkafka.clients.producer import Producer
from pkafka.model import TopicPartition

ROLES: Final = ("producer", "consumer")
"""The producer first: it writes what the consumer reads."""
_ROUNDS: Final = 5
_VALUE: Final = bytes(1_000)
_PATIENCE_S: Final = 120


def peak_mb(role: str, bootstrap: str, topic: str, partitions: int) -> float:
    """Run a client, and give back the most memory that it had, in MB.

    Args:
        role: of :data:`ROLES`.

    Raises:
        RuntimeError: it failed.
    """
    command = [sys.executable, "-m", "benchmarks.client_memory", role, bootstrap, topic, str(partitions)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_PATIENCE_S)
    if done.returncode:
        raise RuntimeError(f"the {role} ended with {done.returncode}: {done.stderr[-300:]}")
    return float(done.stdout)


def _produce(bootstrap: str, topic: str, partitions: int) -> None:
    """Records for every partition at once, so that all of them wait at the same time."""
    with Producer({"bootstrap.servers": bootstrap, "linger.ms": 100}) as producer:
        for _ in range(_ROUNDS):
            for number in range(partitions):
                producer.send(topic, _VALUE, partition=number)
        producer.flush()


def _consume(bootstrap: str, topic: str, partitions: int) -> None:
    """All that was written."""
    every = [TopicPartition(topic, number) for number in range(partitions)]
    left = _ROUNDS * partitions
    with Consumer({"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign(every)
        while left > 0:
            left -= len(consumer.poll(1_000))


def main() -> None:
    """See the module."""
    role, bootstrap, topic, partitions = sys.argv[1:]
    (_produce if role == "producer" else _consume)(bootstrap, topic, int(partitions))
    # Not ru_maxrss: what this process had of its parent before it became another program counts there.
    (peak,) = (
        line.split()[1]
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmHWM:")
    )
    print(int(peak) * 1024 / 1e6)


if __name__ == "__main__":
    main()
