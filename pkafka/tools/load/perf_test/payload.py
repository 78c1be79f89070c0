"""What the records of a load test hold: sizes, values and keys, drawn from distributions with a seed.

=================  =====================================================================================
sizes              ``BYTES``, ``uniform:FROM:TO``, ``normal:MEAN:DEVIATION``, ``file:PATH`` (a size a line)
keys               ``none``, ``sequential``, ``uniform:N``, ``zipf:N[:EXPONENT]``: numbers, as text
a template         text with ``{number}``, ``{now_ms}``, ``{uuid}``, ``{random:N}``, ``{int:FROM:TO}`` and
                   ``{choice:A|B|C}``; other braces are left as they are
=================  =====================================================================================

Values without a file or a template are capital letters, as Kafka's own tool sends; ten thousand of them differ. They
are made before the test begins, so that a record costs nanoseconds while it runs; a template is filled in for each.
"""

import random
import re
import struct
import time
import uuid
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Final

from pkafka.tools.load.perf_test.plan import Plan, PlanError

STAMP_BYTES: Final = 16
"""The beginning of a value: eight bytes of the run, eight that say how many nanoseconds after its start it was due."""

_STAMP: Final = struct.Struct(">8sQ")
_POOL_RECORDS: Final = 10_000
_POOL_BYTES: Final = 16 * 1024 * 1024
_RECORDS_MAX: Final = 1_000
_SAMPLES: Final = 100
_CALL_BYTES: Final = 1_048_576
_KEYS_KEPT: Final = 65_536
_ZIPF_KEYS_MAX: Final = 5_000_000
_SIZE_MAX: Final = 1 << 30
_SIZE_DIGITS: Final = 10
_INTEGERS_DIGITS: Final = 100
"""Of the two numbers between which a template's lie, together."""
_LETTERS: Final = bytes(65 + byte % 26 for byte in range(256))

Draw = Callable[[int], Sequence[int]]
"""So many numbers."""


def stamp(run_id: bytes, due_ns: int) -> bytes:
    """The beginning of a value that was due so long after the start of its run."""
    return _STAMP.pack(run_id, due_ns)


def due_of(run_id: bytes, beginning: bytes) -> int | None:
    """How long after the start of this run a record was due; None where it is of another run, or has no stamp."""
    if len(beginning) != STAMP_BYTES:
        return None
    run, due_ns = _STAMP.unpack(beginning)
    return due_ns if run == run_id else None


def has_room_for_stamps(plan: Plan) -> bool:
    """Whether the beginning of every value has no meaning, so that a stamp can stand there."""
    if plan.payload_file is not None or plan.payload_template is not None:
        return False
    return Sizes(plan.record_size, random.Random()).smallest >= STAMP_BYTES  # noqa: S311 - payload


class Sizes:
    """A distribution of sizes in bytes.

    Args:
        text: as on the command line.
        draw: chooses.

    Raises:
        PlanError: the text is no distribution.
        OSError: its file cannot be read.
    """

    def __init__(self, text: str, draw: random.Random) -> None:
        kind, _, rest = text.partition(":")
        parts = rest.split(":")
        self.smallest = 1
        try:
            if not rest:
                self.smallest = largest = size = int(text)
                self.take: Draw = lambda count: [size] * count
            elif kind == "uniform" and len(parts) == 2:
                self.smallest, largest = int(parts[0]), int(parts[1])
                sizes = range(self.smallest, largest + 1)
                self.take = lambda count: draw.choices(sizes, k=count)
            elif kind == "normal" and len(parts) == 2:
                mean, deviation = float(parts[0]), float(parts[1])
                # The shortest has room for a stamp, so that every such test can tell when its records were due.
                self.smallest = largest = STAMP_BYTES
                self.take = lambda count: [
                    min(max(round(draw.gauss(mean, deviation)), STAMP_BYTES), _SIZE_MAX) for _ in range(count)
                ]
            elif kind == "file":
                found = [int(line) for line in Path(rest).read_text(encoding="utf-8").split()]
                self.smallest, largest = min(found), max(found)
                self.take = lambda count: draw.choices(found, k=count)
            else:
                raise ValueError(text)
            self.take(1)
        except (ValueError, IndexError, OverflowError):
            raise PlanError(
                f"{text!r} is no size of records: BYTES, uniform:FROM:TO, normal:MEAN:DEVIATION or file:PATH"
            ) from None
        if self.smallest < 1:
            raise PlanError(f"{text!r}: a record has at least one byte")
        if largest > _SIZE_MAX:
            raise PlanError(f"{text!r}: a record has at most {_SIZE_MAX} bytes")


class Values:
    """The values of one producer.

    Args:
        plan: what they are to be.
        seed: another one for every producer, so that no two send the same.

    Raises:
        PlanError, OSError: as :class:`Sizes`; or a file has no payloads.
    """

    def __init__(self, plan: Plan, seed: int) -> None:
        draw = random.Random(seed)  # noqa: S311 - payload
        self._next = 0
        self._pool: list[bytes] = []
        self._template: Template | None = None
        if plan.payload_template is not None:
            self._template = Template(plan.payload_template, draw)
            sample = Template(plan.payload_template, draw).take(_SAMPLES)
        elif plan.payload_file is not None:
            lines = [line for line in Path(plan.payload_file).read_bytes().split(b"\n") if line]
            if not lines:
                raise PlanError(f"{plan.payload_file}: there is no payload in it")
            sample = self._pool = draw.choices(lines, k=_POOL_RECORDS)
        else:
            sizes = Sizes(plan.record_size, draw)
            sample = self._pool = list(_letters(sizes, draw))
        self.mean_bytes = sum(map(len, sample)) / len(sample)
        self.records_per_call = max(1, min(_RECORDS_MAX, int(_CALL_BYTES / self.mean_bytes)))
        """How many to hand over at once where nothing says how many are due."""

    def take(self, count: int) -> list[bytes]:
        """The next values."""
        if self._template is not None:
            return self._template.take(count)
        pool, start = self._pool, self._next
        taken = pool[start : start + count]
        while len(taken) < count:
            taken += pool[: count - len(taken)]
        self._next = (start + count) % len(pool)
        return taken

    def take_stamped(self, count: int, beginning: bytes) -> list[bytes]:
        """The next values, with another beginning of :data:`STAMP_BYTES` bytes."""
        return [beginning + value[STAMP_BYTES:] for value in self.take(count)]


def _letters(sizes: Sizes, draw: random.Random) -> Iterator[bytes]:
    total = 0
    for size in sizes.take(_POOL_RECORDS):
        yield draw.randbytes(size).translate(_LETTERS)
        total += size
        if total > _POOL_BYTES:
            return


class Template:
    """Values of text with places to fill in.

    Raises:
        PlanError: a place cannot be filled in.
    """

    _PLACE: Final = re.compile(r"\{(number|now_ms|uuid|random:[0-9]+|int:-?[0-9]+:-?[0-9]+|choice:[^{}]*)\}")

    def __init__(self, text: str, draw: random.Random) -> None:
        if not text:
            raise PlanError("the template of payloads is empty")
        self._draw = draw
        self._number = 0
        pieces = self._PLACE.split(text)
        self._literals = pieces[::2]
        self._places = [self._filler(place) for place in pieces[1::2]]

    def take(self, count: int) -> list[bytes]:
        """The next values."""
        return [self._one() for _ in range(count)]

    def _one(self) -> bytes:
        parts = [self._literals[0]]
        for fill, literal in zip(self._places, self._literals[1:], strict=True):
            parts += fill(), literal
        self._number += 1
        return "".join(parts).encode(errors="surrogateescape")

    def _filler(self, place: str) -> Callable[[], str]:
        draw = self._draw
        kind, _, rest = place.partition(":")
        if kind == "number":
            return lambda: str(self._number)
        if kind == "now_ms":
            return lambda: str(time.time_ns() // 1_000_000)
        if kind == "uuid":
            return lambda: str(uuid.UUID(int=draw.getrandbits(128), version=4))
        if kind == "random":
            if len(rest) > _SIZE_DIGITS or int(rest) > _SIZE_MAX:
                raise PlanError(f"{{{place}}}: a record has at most {_SIZE_MAX} bytes")
            return lambda: draw.randbytes(int(rest)).translate(_LETTERS).decode()
        if kind == "choice":
            choices = rest.split("|")
            return lambda: draw.choice(choices)
        if len(rest) > _INTEGERS_DIGITS:
            raise PlanError(f"{{{place}}}: such long numbers are not made")
        lowest, highest = map(int, rest.split(":"))
        if lowest > highest:
            raise PlanError(f"{{{place}}}: there is no such number")
        return lambda: str(draw.randint(lowest, highest))


class Keys:
    """The keys of one producer.

    Args:
        text: as on the command line.
        seed: another one for every producer.
        step: where keys count, how many producers count: no two have the same key.

    Raises:
        PlanError: the text is no distribution.
    """

    def __init__(self, text: str, seed: int, *, first: int = 0, step: int = 1) -> None:
        kind, _, rest = text.partition(":")
        draw = random.Random(seed)  # noqa: S311 - payload
        self._take: Draw | None = None
        self._kept: list[bytes] = []
        try:
            if kind == "sequential" and not rest:
                self._take = _Counting(first, step).take
            elif kind == "uniform" and int(rest) > 0:
                among = range(int(rest))
                len(among)  # where that is too much to count, it is too much to choose from
                self._take = lambda count: draw.choices(among, k=count)
                self._keep(len(among))
            elif kind == "zipf":
                number, _, exponent = rest.partition(":")
                self._take = _zipf(int(number), float(exponent or 1), draw)
                self._keep(int(number))
            elif text != "none":
                raise ValueError(text)
        except (ValueError, OverflowError):
            raise PlanError(
                f"{text!r} is no distribution of keys: none, sequential, uniform:N or zipf:N[:EXPONENT]"
            ) from None

    def take(self, count: int) -> list[bytes] | None:
        """The next keys; None for records without."""
        if self._take is None:
            return None
        if kept := self._kept:
            return [kept[number] for number in self._take(count)]
        return [b"%d" % number for number in self._take(count)]

    def _keep(self, number: int) -> None:
        if number <= _KEYS_KEPT:
            self._kept = [b"%d" % each for each in range(number)]


class _Counting:
    def __init__(self, first: int, step: int) -> None:
        self._next = first
        self._step = step

    def take(self, count: int) -> Sequence[int]:
        taken = range(self._next, self._next + count * self._step, self._step)
        self._next = taken.stop
        return taken


def _zipf(number: int, exponent: float, draw: random.Random) -> Draw:
    """Key k is drawn in proportion to 1 / (k + 1) ** exponent."""
    if not 0 < number <= _ZIPF_KEYS_MAX or exponent <= 0:
        raise ValueError(number)
    sums = array("d", accumulate(1 / (rank**exponent) for rank in range(1, number + 1)))
    total, last = sums[-1], number - 1
    return lambda count: [min(bisect_left(sums, draw.random() * total), last) for _ in range(count)]
