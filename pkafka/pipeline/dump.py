"""Dumps segments by Spark: tasks read parts of them, and the driver puts rows and text in the order of the files.

``tools/logs/dump.py`` makes what is printed, in tasks as in one process. The driver itself reads files that are no
segments: these are small. Where tasks run on this machine they leave text in files, which are read and removed in
their turn: by way of Spark's JVM it would be copied six times, which took more time than all the rest.
"""

import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from pkafka.pipeline.segments.index import IndexedBatches
from pkafka.pipeline.segments.plan import boundaries
from pkafka.tools.logs.dump import Dump, Part, Reached
from pkafka.tools.logs.findings import Findings
from pkafka.tools.logs.records.decoders import PLAIN, Content
from pkafka.tools.logs.rows import Row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")

PART_BYTES: Final = 4 << 20
"""What one task dumps: what it makes of it, which may be many times as much, goes through this process's memory."""
SPOOLED_BYTES: Final = 32 << 20
"""The same where it goes through files."""
_BLOCK_BYTES: Final = 1 << 18
_TASKS_A_CORE: Final = 2
_ON_THIS_MACHINE: Final = "local"
"""How the address of such a master begins."""


class _Place(NamedTuple):
    """A part of the file with this number."""

    number: int
    path: Path
    part: Part
    size: int


class _Dumped(NamedTuple):
    """What a task made of a part: rows or blocks of text, or the file that has the text."""

    items: list[Any] | Path
    reached: Reached
    findings: Findings


@dataclass
class SparkDump(Dump):
    """A dump whose segments are read in tasks of Spark's; it is asked about all its files once, and in their order.

    Args:
        session: whose tasks.
        files: what will be asked about.
        part_bytes: what one task reads at most, where a batch is not larger; None for what suits its way.

    Attributes:
        unindexed: segments without a right index, whose batches were looked for from their start.
    """

    session: "SparkSession | None" = None
    files: Sequence[Path] = ()
    part_bytes: int | None = None
    unindexed: list[Path] = field(default_factory=list)
    _results: "Generator[tuple[_Place, _Dumped], None, None] | None" = field(default=None, init=False)
    _waiting: tuple[_Place, _Dumped] | None = field(default=None, init=False)
    _number: int = field(default=-1, init=False)

    def rows(self, path: Path) -> Iterator[Row]:
        """As :meth:`Dump.rows`."""
        if _is_segment(path):
            yield from self._in_order(path, Dump.rows, is_text=False)
        else:
            yield from super().rows(path)

    def text(
        self,
        path: Path,
        *,
        content: bool,
        metadata: bool = True,
        header_values: bool = False,
        by: Content = PLAIN,
    ) -> Iterator[bytes]:
        """As :meth:`Dump.text`."""
        make = partial(Dump.text, content=content, metadata=metadata, header_values=header_values, by=by)
        if _is_segment(path):
            yield from self._in_order(path, make, is_text=True)
        else:
            yield from make(self, path)

    def close(self) -> None:
        """Give up what was not asked for yet, and remove what tasks have left."""
        if self._results is not None:
            self._results.close()

    def _in_order(
        self, path: Path, make: Callable[[Dump, Path], Iterator[T]], *, is_text: bool
    ) -> Iterator[T]:
        if self._results is None:
            self._results = self._all_results(make, is_text=is_text)
        self._number += 1
        following = -1
        for place, dumped in self._of_file(self._number):
            start, stop, _ = place.part
            reached = dumped.reached
            if reached.is_damaged and stop is not None:
                # Where reading goes on behind damage, and whether it does, may depend on what lies behind this part.
                rest = replace(self._settings(), part=Part(start, following=following))
                yield from make(rest, path)
                self.findings.extend(rest.findings)
                break
            if reached.first_offset != following != -1 != reached.first_offset:
                self.note_gap(path, following, reached.first_offset)
            following = reached.following if reached.following >= 0 else following
            self.findings.extend(dumped.findings)
            yield from _taken(dumped.items)
            if self.on_read is not None:
                self.on_read(place.size)
            if stop is not None and reached.end < stop:
                break
        for _ in self._of_file(self._number):
            pass

    def _of_file(self, number: int) -> Iterator[tuple[_Place, _Dumped]]:
        """The results of the file with a number that have not been taken yet."""
        assert self._results is not None
        while True:
            if self._waiting is None:
                self._waiting = next(self._results, None)
            if self._waiting is None or self._waiting[0].number != number:
                return
            result, self._waiting = self._waiting, None
            yield result

    def _all_results(
        self, make: Callable[[Dump, Path], Iterator[Any]], *, is_text: bool
    ) -> "Generator[tuple[_Place, _Dumped], None, None]":
        """Parts of all files in order, with what tasks made of them. Tasks make the next while some are printed."""
        assert self.session is not None
        context = self.session.sparkContext
        with ExitStack() as stack:
            spool: Path | None = None
            if is_text and str(context.master).startswith(_ON_THIS_MACHINE):
                directory = tempfile.TemporaryDirectory(prefix="pk-dump-", ignore_cleanup_errors=True)
                spool = Path(stack.enter_context(directory))
            task = partial(_dump_parts, self._settings(), make, spool)

            def run(places: list[_Place]) -> list[_Dumped]:
                return context.parallelize(places, len(places)).mapPartitions(task).collect()

            pool = ThreadPoolExecutor(1)
            stack.callback(pool.shutdown, wait=spool is not None, cancel_futures=True)
            places = self._places(self.part_bytes or (PART_BYTES if spool is None else SPOOLED_BYTES))
            at_once = _TASKS_A_CORE * context.defaultParallelism
            before: tuple[list[_Place], Future[list[_Dumped]]] | None = None
            while group := list(islice(places, at_once)):
                running = pool.submit(run, group)
                if before is not None:
                    yield from zip(before[0], before[1].result(), strict=True)
                before = group, running
            if before is not None:
                yield from zip(before[0], before[1].result(), strict=True)

    def _places(self, part_bytes: int) -> Iterator[_Place]:
        for number, path in enumerate(path for path in self.files if _is_segment(path)):
            size = min(path.stat().st_size, self.bytes_max)
            ends: list[int | None] = []
            if size > part_bytes:
                with IndexedBatches.of(str(path), int(path.stem)) as index:
                    if index.problem is not None:
                        self.unindexed.append(path)
                    ends += boundaries(path, index, 0, size, part_bytes)
            for start, end in pairwise((0, *ends, None)):
                yield _Place(
                    number, path, Part(start or 0, end), (size if end is None else end) - (start or 0)
                )

    def _settings(self) -> Dump:
        """A dump of the same for one process, of which a task makes a copy."""
        return Dump(
            records=self.records,
            bytes_max=self.bytes_max,
            verify_only=self.verify_only,
            sanity_only=self.sanity_only,
            selection=self.selection,
            resync=self.resync,
        )


def _dump_parts(
    settings: Dump,
    make: Callable[[Dump, Path], Iterator[Any]],
    spool: Path | None,
    places: Iterator[_Place],
) -> Iterator[_Dumped]:
    for place in places:
        dump = replace(settings, part=place.part, findings=Findings())
        made = make(dump, place.path)
        items = list(made) if spool is None else _spooled(made, spool)
        yield _Dumped(items, dump.reached, dump.findings)


def _spooled(blocks: Iterator[bytes], directory: Path) -> Path:
    """A new file with blocks of text."""
    with tempfile.NamedTemporaryFile(dir=directory, delete=False, buffering=0) as file:
        for block in blocks:
            file.write(block)
    return Path(file.name)


def _taken(items: list[Any] | Path) -> Iterator[Any]:
    """What a task made; its file is gone when it has been read."""
    if isinstance(items, list):
        yield from items
        return
    with items.open("rb", buffering=0) as file:
        items.unlink()
        while block := file.read(_BLOCK_BYTES):
            yield block


def _is_segment(path: Path) -> bool:
    return path.suffix == ".log" and path.stem.isdecimal() and path.is_file()
