"""What a check of a log gives: its extent, and the problems that were found."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

NOTHING: Final = -1
"""No offset is known."""

_PROBLEMS_KEPT: Final = 1_000


class Problem(NamedTuple):
    """Something found. ``position`` and ``size`` are bytes of the file, where it is about some; else -1."""

    file: str
    check: str
    position: int
    size: int
    message: str
    is_damage: bool


@dataclass
class LogReport:
    """What was found in one log, or in the files of a data directory itself."""

    path: Path
    segments: int = 0
    batches: int = 0
    records: int = 0
    size_bytes: int = 0
    first_offset: int = NOTHING
    next_offset: int = NOTHING
    is_compacted: bool = False
    damage: int = 0
    remarks: int = 0
    problems: list[Problem] = field(default_factory=list)

    def add(
        self, file: Path, check: str, message: str, *, position: int = -1, size: int = -1, damage: bool = True
    ) -> None:
        """Note something; of very many, only the first are kept, but all are counted."""
        self.damage += damage
        self.remarks += not damage
        if len(self.problems) < _PROBLEMS_KEPT:
            self.problems.append(Problem(file.name, check, position, size, message, damage))
