"""A /proc of a test's own, in which the processes run that the test says."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from pkafka.tools.servers import processes


class Machine:
    """A /proc with the processes that a test puts into it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        (root / "meminfo").write_text("not a process")
        self._number("self", "pid:[1]")

    def runs(
        self,
        pid: int,
        *arguments: str,
        parent: int = 1,
        session: int = 1,
        name: str = "python",
        cwd: Path | None = None,
        holds: Sequence[Path] = (),
        container: str = "pid:[1]",
    ) -> None:
        folder = self._number(str(pid), container)
        (folder / "cmdline").write_bytes(b"".join(each.encode() + b"\0" for each in arguments))
        (folder / "stat").write_text(f"{pid} ({name}) S {parent} {pid} {session} 0 -1")
        (folder / "root").symlink_to("/")
        if cwd is not None:
            (folder / "cwd").symlink_to(cwd)
        (folder / "fd").mkdir()
        for number, path in enumerate(holds, start=9):  # 10 comes after 9
            (folder / "fd" / str(number)).symlink_to(path)

    def _number(self, name: str, container: str) -> Path:
        folder = self._root / name
        (folder / "ns").mkdir(parents=True)
        (folder / "ns" / "pid").symlink_to(container)
        return folder


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """The machine that :mod:`pkafka.tools.servers.processes` looks at."""
    root = tmp_path / "proc"
    root.mkdir()
    monkeypatch.setattr(processes, "_PROC", root)
    return Machine(root)
