"""pk-dump-log and Kafka's DumpLogSegments on the same segment, their output to a file: no broker runs."""

import os
import random
import resource
import struct
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.model import Figure, Scenario, Settings
from benchmarks.systems import Target
from pkafka.records.batch import stamp
from pkafka.records.builder import build_batch
from pkafka.records.compression import Codec
from tests.interop import kafka as oracle

SEGMENT_BYTES: Final = 1_000_000_000
RECORDS: Final = 1_000_000
RECORD_BYTES: Final = 100
_BATCHES_THAT_DIFFER: Final = 16
_INDEX_ENTRY: Final = struct.Struct(">ii")


class Layout(NamedTuple):
    """How large batches are before their compression, and what compresses them."""

    batch_bytes: int
    codec: Codec

    def __str__(self) -> str:
        return f"{self.batch_bytes >> 10} KB, {self.codec.name.lower()}"


LAYOUTS: Final = tuple(
    Layout(batch_bytes, codec) for codec in (Codec.NONE, Codec.ZSTD) for batch_bytes in (4_096, 65_536)
)


def _batches(target: Target, settings: Settings) -> dict[str, float]:
    """CPU seconds for a segment, batch by batch."""
    size = settings.scaled(SEGMENT_BYTES, 64_000_000)
    return {
        str(layout): _cpu_s(target, segment_of(target, layout, bytes_max=size, records_max=sys.maxsize))
        for layout in LAYOUTS
    }


def _records(target: Target, settings: Settings) -> dict[str, float]:
    """CPU seconds for records with their values."""
    count = settings.scaled(RECORDS, 100_000)
    dump = partial(_cpu_s, target, flags=("--print-data-log",))
    return {
        str(layout): dump(segment_of(target, layout, bytes_max=sys.maxsize, records_max=count))
        for layout in LAYOUTS
    }


def segment_of(target: Target, layout: Layout, *, bytes_max: int, records_max: int) -> Path:
    """A segment of so many bytes or records with its offset index, made when first asked for, alike everywhere."""
    folder = (
        Path(target.broker.log_dir).parent
        / f"{layout.codec.name}-{layout.batch_bytes}-{min(bytes_max, records_max)}"
    )
    path = folder / f"{0:020}.log"
    if path.exists():
        return path
    folder.mkdir(parents=True)
    chance = random.Random(1)
    words = [chance.randbytes(8).hex().encode() for _ in range(500)]
    per_batch = layout.batch_bytes // (RECORD_BYTES + 8)
    batches = []
    for _ in range(_BATCHES_THAT_DIFFER):
        values = [b" ".join(chance.choices(words, k=6))[:RECORD_BYTES] for _ in range(per_batch)]
        records = [(1_700_000_000_000 + place, None, value, ()) for place, value in enumerate(values)]
        batches.append(
            build_batch(records, codec=layout.codec, producer_id=1, producer_epoch=0, base_sequence=0)
        )
    offset = size = 0
    with path.open("wb") as file, path.with_suffix(".index").open("wb") as index:
        while size < bytes_max and offset < records_max:
            if offset:
                index.write(_INDEX_ENTRY.pack(offset + per_batch - 1, size))
            batch = batches[offset // per_batch % _BATCHES_THAT_DIFFER]
            stamp(batch, 0, len(batch), base_offset=offset, leader_epoch=0)
            size += file.write(batch)
            offset += per_batch
    return path


def _cpu_s(target: Target, segment: Path, flags: tuple[str, ...] = ()) -> float:
    """User plus system time of a dump into a file, the start of Java or Python included."""
    arguments = ["--files", str(segment), *flags]
    if target.name == "kafka":
        # The heap that Kafka's scripts give a tool.
        command = [oracle.java_program("java"), "-Xmx256M", "-cp", oracle.jars("kafka")]
        command += ["kafka.tools.DumpLogSegments", *arguments]
    else:
        command = [str(Path(sys.executable).with_name("pk-dump-log")), *arguments]
    environment = {**os.environ, **({"PKAFKA_PURE": "1"} if target.name == "pkafka-pure" else {})}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with (segment.parent / "dump.txt").open("wb") as output:
        subprocess.run(
            command, stdout=output, stderr=subprocess.DEVNULL, check=True, timeout=600, env=environment
        )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


SCENARIOS = (
    Scenario(
        name="dump_log_batches",
        about="pk-dump-log and DumpLogSegments: 1 GB batch by batch, into a file; batches before compression",
        figures=tuple(Figure(str(layout), "s CPU", more_is_better=False, bar=0.5) for layout in LAYOUTS),
        measure=_batches,
        started=False,
        warm_up=False,
    ),
    Scenario(
        name="dump_log_records",
        about="the same with --print-data-log: a million records of 100 B",
        figures=tuple(Figure(str(layout), "s CPU", more_is_better=False, bar=1.0) for layout in LAYOUTS),
        measure=_records,
        started=False,
        warm_up=False,
    ),
)
