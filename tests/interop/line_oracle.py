"""Programs of ``java/`` that answer one line for each line, so that a JVM starts once for many questions."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

SOURCES: Final = Path(__file__).parent / "java"
END_TIMEOUT_S: Final = 60


class LineOracle:
    """A Java process that answers one line per line.

    Args:
        class_path: what it runs on.
        name: of the class and its source file.
    """

    def __init__(self, class_path: str, name: str) -> None:
        self._process = subprocess.Popen(
            ["java", "-Xmx256m", "-cp", class_path, str(SOURCES / f"{name}.java")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def ask(self, line: str) -> str:
        """The answer to one line."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().rstrip("\n")
        assert answer, "the oracle has ended"
        return answer

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(END_TIMEOUT_S)
        self._process.stdout.close()


@contextmanager
def line_oracle(class_path: str, name: str) -> Iterator[LineOracle]:
    """A running oracle."""
    started = LineOracle(class_path, name)
    try:
        yield started
    finally:
        started.close()
