"""A disk that a test can fill."""

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 24 MB."""
    path = tmp_path / "small"
    path.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m", "pkafka-test", str(path)], capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(f"needs root and the right to mount: {done.stderr.strip()}")
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)


def fill(disk: Path) -> Path:
    """Leave no room on a disk; returns the file that has it all."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    return filler
