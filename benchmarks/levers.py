"""``python -m benchmarks.levers``: what each of the levers does that Kafka's speed is said to rest on.

Not a comparison with Apache Kafka (that is ``python -m benchmarks``) but one row with the lever pulled and one without,
on this machine: zero copy, sequential writing, batching, compression, partitions, sparse indexes, one event loop for
many connections, and offsets in place of state per record. ``--quick`` shows that everything works.
"""

import argparse
import json
import os
import random
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from benchmarks import parallelism, wire
from benchmarks.clusters import Cluster, running_cluster
from benchmarks.consuming import Data, consume, fill
from benchmarks.producing import Load, produce
from benchmarks.scale import Row, Scale
from benchmarks.systems import Systems, Target
from pkafka.protocol.api import ApiKey
from pkafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pkafka.records.builder import build_batch
from pkafka.records.compression import Codec

BLOCK_BYTES: Final = 4_096
CHUNK_BYTES: Final = 1 << 16
IDLE_CONNECTIONS: Final = 500
_TEXT: Final = b'{"user":"u%06d","event":"page_view","path":"/products/%04d","ms":%05d}'
_TEXT_RECORDS: Final = 500


FULL: Final = Scale(5.0, 512_000_000, (1, 12, 100, 1_000), 4, (1, 2, 4, 6))
QUICK: Final = Scale(0.2, 4_000_000, (1, 4), 2, (1, 2, 3))


def zero_copy(directory: Path, scale: Scale) -> Iterator[Row]:
    """A file in the page cache to a socket: sendfile(2), against read and send through a buffer of the process."""
    path = directory / "segment"
    path.write_bytes(os.urandom(1 << 20) * (scale.bytes >> 20 or 1))
    size = path.stat().st_size
    for way, send in (("sendfile", _by_sendfile), ("read and send", _by_copies)):
        with socket.create_server(("127.0.0.1", 0)) as server:
            sender = socket.create_connection(server.getsockname())
            receiver, _ = server.accept()
        drain = threading.Thread(target=_drain, args=(receiver,))
        drain.start()
        cpu, began = time.thread_time(), time.perf_counter()
        with sender, path.open("rb") as file:
            send(sender, file.fileno(), size)
        used, took = time.thread_time() - cpu, time.perf_counter() - began
        drain.join()
        yield Row("zero copy", way, size / took / 1e6, "MB/s")
        yield Row("zero copy", way, used / (size / 1e9), "CPU s/GB of the sender")


def _by_sendfile(sender: socket.socket, file: int, size: int) -> None:
    position = 0
    while position < size:
        position += os.sendfile(sender.fileno(), file, position, size - position)


def _by_copies(sender: socket.socket, file: int, size: int) -> None:
    for position in range(0, size, CHUNK_BYTES):
        sender.sendall(os.pread(file, CHUNK_BYTES, position))


def _drain(receiver: socket.socket) -> None:
    buffer = bytearray(1 << 18)
    with receiver:
        while receiver.recv_into(buffer):
            pass


def sequential_writes(directory: Path, scale: Scale) -> Iterator[Row]:
    """Blocks of 4 KiB written to the disk in order, against the same blocks in random order (flushed every 256)."""
    count = max(256, scale.bytes // 8 // BLOCK_BYTES)
    block = os.urandom(BLOCK_BYTES)
    order = list(range(count))
    for way in ("sequential", "random"):
        descriptor = os.open(directory / way, os.O_CREAT | os.O_WRONLY)
        try:
            os.posix_fallocate(descriptor, 0, count * BLOCK_BYTES)
            os.fsync(descriptor)
            began = time.perf_counter()
            for number, index in enumerate(order):
                os.pwrite(descriptor, block, index * BLOCK_BYTES)
                if number % 256 == 255:
                    os.fdatasync(descriptor)
            os.fdatasync(descriptor)
            took = time.perf_counter() - began
        finally:
            os.close(descriptor)
        yield Row("sequential writes", way, count * BLOCK_BYTES / took / 1e6, "MB/s on the disk")
        random.Random(0).shuffle(order)


def batching(target: Target, scale: Scale) -> Iterator[Row]:
    """Records of 100 bytes, by the size of the batch that they come in."""
    for batch_bytes in (1, 1_000, 16_384, 131_072):
        load = Load(record_bytes=100, batch_bytes=batch_bytes)
        outcome = produce(target, load, scale.seconds)
        way = f"{outcome.records // outcome.requests} records a batch"
        yield Row("batching", way, outcome.records / outcome.seconds, "records/s")


def compression(_directory: Path, _scale: Scale) -> Iterator[Row]:
    """A batch of records like log lines, by codec: what it takes on wire and disk, and what making it costs."""
    records = [
        (number, None, _TEXT % (number * 7, number, number * 3), ()) for number in range(_TEXT_RECORDS)
    ]
    for codec in Codec:
        cpu = time.process_time()
        data = build_batch(records, codec=codec)
        used = time.process_time() - cpu
        yield Row("compression", codec.name.lower(), len(data) / _TEXT_RECORDS, "bytes a record")
        yield Row(
            "compression", codec.name.lower(), used / _TEXT_RECORDS * 1e6, "CPU us a record, to make it"
        )


def sparse_indexes(target: Target, scale: Scale) -> Iterator[Row]:
    """Fetches of one batch each: always the first of a log, and anywhere in it, found by index and a short scan."""
    data = _data(target, scale, 1)
    dice = random.Random(0)
    for way, end in (("first batch", 1), ("anywhere", data.end_offset)):
        count, began = 0, time.perf_counter()
        with wire.Link(target.address) as link:
            while time.perf_counter() - began < scale.seconds:
                wanted = FetchPartition(partition=0, fetch_offset=dice.randrange(end), partition_max_bytes=1)
                topics = [FetchTopic(topic=data.topic, partitions=[wanted])]
                link.call(ApiKey.FETCH, 11, FetchRequest(max_wait_ms=0, min_bytes=0, topics=topics))
                count += 1
        yield Row("sparse indexes", way, count / (time.perf_counter() - began), "fetches/s")
    wire.delete_topic(target.address, data.topic)


def event_loop(target: Target, scale: Scale) -> Iterator[Row]:
    """One busy connection among many idle ones: what those cost it, and the broker's memory."""
    load = Load(record_bytes=100, batch_bytes=1, depth=16)
    before = target.pss_mb()
    for count in (0, IDLE_CONNECTIONS):
        idle = [socket.create_connection(target.address) for _ in range(count)]
        rate = produce(target, load, scale.seconds).requests_per_s
        yield Row("event loop", f"{count} idle connections", rate, "requests/s of another")
        if count:
            yield Row("event loop", f"{count} idle connections", target.pss_mb() - before, "MB more memory")
        for each in idle:
            each.close()


def offsets_alone(target: Target, scale: Scale) -> Iterator[Row]:
    """What the broker remembers of records: its memory after few and after many times as many."""
    for total in (scale.bytes // 64, scale.bytes // 2):
        data = fill(target, record_bytes=100, batch_bytes=64_000, partitions=1, total_bytes=total)
        consume(target, data, scale.seconds, once=True)
        way = f"{data.end_offset:,} records written and read"
        yield Row("no state per record", way, target.pss_mb(), "MB of memory")
        wire.delete_topic(target.address, data.topic)


def _data(target: Target, scale: Scale, count: int) -> Data:
    return fill(
        target, record_bytes=1_000, batch_bytes=64_000, partitions=count, total_bytes=scale.bytes // 4
    )


MACHINE: Final[Mapping[str, Callable[[Path, Scale], Iterator[Row]]]] = {
    "zero-copy": zero_copy,
    "sequential-writes": sequential_writes,
    "compression": compression,
}
"""What needs a disk and sockets alone."""
BROKER: Final[Mapping[str, Callable[[Target, Scale], Iterator[Row]]]] = {
    "batching": batching,
    "partitions": parallelism.partitions,
    "consumers": parallelism.consumers,
    "sparse-indexes": sparse_indexes,
    "event-loop": event_loop,
    "offsets-alone": offsets_alone,
}
"""What needs a broker; each has one of its own."""
CLUSTER: Final[Mapping[str, Callable[[Cluster, Scale], Iterator[Row]]]] = {"fail-over": parallelism.fail_over}
"""What needs three brokers, and ZooKeeper's jars for them."""


def rows_of(name: str, scale: Scale, parent: Path | None = None) -> Iterator[Row]:
    """The rows of one lever.

    Args:
        parent: where its files go for as long as it takes; the system's temporary directory when left out.
    """
    with tempfile.TemporaryDirectory(prefix="pkafka-levers-", dir=parent) as folder:
        if name in MACHINE:
            yield from MACHINE[name](Path(folder), scale)
        elif name in CLUSTER:
            with running_cluster("pkafka", Path(folder) / "cluster", shares_cores=True) as cluster:
                yield from CLUSTER[name](cluster, scale)
        else:
            with Systems(Path(folder)).target("pkafka") as target:
                yield from BROKER[name](target, scale)


def main(words: Sequence[str] | None = None) -> int:
    """Pull the levers that the command line names, all without one.

    Args:
        words: the command line; None for that of the process.
    """
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.levers", description=str(__doc__).split("\n\n")[0]
    )
    levers = {**MACHINE, **BROKER, **CLUSTER}
    parser.add_argument(
        "lever", nargs="*", metavar="LEVER", help=f"of {', '.join(levers)}; all when left out"
    )
    parser.add_argument("--quick", action="store_true", help="small and short: does everything work?")
    parser.add_argument("--json", action="store_true", help="one document at the end, with all rows")
    parser.add_argument("--directory", type=Path, help="where files are written; default: the system's")
    options = parser.parse_args(words)
    unknown = set(options.lever) - levers.keys()
    if unknown:
        parser.error(f"unknown levers: {', '.join(sorted(unknown))}")
    every: list[Row] = []
    for name in options.lever or levers:
        if not options.json:
            print(levers[name].__doc__)
        found: list[Row] = []
        for row in rows_of(name, QUICK if options.quick else FULL, options.directory):
            found.append(row)
            if not options.json:
                figure = f"{row.value:>12,.3g}" if row.value < 100 else f"{row.value:>12,.0f}"
                print(f"  {row.way:<40}{figure}  {row.unit}", flush=True)
        every += found
        if not options.json:
            print(*(f"  {each}" for each in parallelism.advice(found)), "", sep="\n")
    if options.json:
        rows = [row._asdict() for row in every]
        print(json.dumps({"rows": rows, "advice": list(parallelism.advice(every))}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
