"""What a dump finds wrong, kept within bounds however much it is, and told as Kafka's DumpLogSegments tells it.

Not everything that Kafka's tool lists is damage: compaction leaves gaps, and an entry of an index may stand for several
batches that were appended together.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from enum import Enum
from itertools import islice
from pathlib import Path
from typing import Final

_KEPT: Final = 10_000


class Finding(Enum):
    """What can be wrong; the text begins what is listed of one file. In the order in which Kafka lists."""

    OTHER = ""
    INDEX_MISMATCH = "Mismatches in :"
    TIME_MISMATCH = "Found timestamp mismatch in :"
    TIME_ORDER = "Found out of order timestamp in :"
    NOT_FOUND = "The following indexed offsets are not found in the log."
    GAP = "Non-consecutive offsets in "


_LATEST_FIRST: Final = (Finding.INDEX_MISMATCH, Finding.GAP)


class Findings:
    """Everything found in one run. ``damage`` counts what no healthy log has."""

    def __init__(self) -> None:
        self.damage = 0
        self._found: dict[Finding, dict[Path, deque[str]]] = {each: {} for each in Finding}
        self._counts: dict[tuple[Finding, Path], int] = {}

    def add(self, kind: Finding, path: Path, text: str, *, damage: bool = True) -> None:
        """Note one thing found in a file."""
        self.damage += damage
        kept = self._found[kind].setdefault(path, deque(maxlen=_KEPT))
        if kind in _LATEST_FIRST:
            kept.appendleft(text)
        elif len(kept) < _KEPT:
            kept.append(text)
        self._counts[kind, path] = self._counts.get((kind, path), 0) + 1

    def extend(self, later: "Findings") -> None:
        """Add what another run found in what comes later."""
        self.damage += later.damage
        for kind, files in later._found.items():
            for path, texts in files.items():
                kept = self._found[kind].setdefault(path, deque(maxlen=_KEPT))
                if kind in _LATEST_FIRST:
                    kept.extendleft(reversed(texts))
                else:
                    kept.extend(islice(texts, _KEPT - len(kept)))
        for place, count in later._counts.items():
            self._counts[place] = self._counts.get(place, 0) + count

    def lines(self) -> Iterator[str]:
        """What to print to standard error at the end."""
        for kind, files in self._found.items():
            if kind is Finding.NOT_FOUND and files:
                yield kind.value
            for path, texts in files.items():
                if kind is Finding.OTHER:
                    yield from texts
                elif kind is Finding.NOT_FOUND:
                    yield from (text.strip() for text in texts)
                else:
                    yield f"{kind.value}{path.absolute()}"
                    yield from texts
                left_out = self._counts[kind, path] - len(texts)
                if left_out:
                    yield f"  and {left_out} more"

    def sentences(self, limit: int = _KEPT) -> list[str]:
        """The same, each finding with its file, as a list for a document."""
        return list(islice(self._sentences(), limit))

    def _sentences(self) -> Iterable[str]:
        for kind, files in self._found.items():
            for path, texts in files.items():
                head = (
                    ""
                    if kind is Finding.OTHER
                    else f"{kind.value}{'' if kind is Finding.NOT_FOUND else path}: "
                )
                yield from (f"{head}{text.strip()}" for text in texts)
