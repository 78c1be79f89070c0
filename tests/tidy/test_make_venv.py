"""What scripts/make-venv.sh makes of machines that are not as it wants them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "make-venv.sh"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A folder with nothing but the script: without an index nothing can be installed into it."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(SCRIPT, tmp_path / "scripts")
    return tmp_path


def make_venv(clone: Path, python: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "scripts/make-venv.sh"],
        cwd=clone,
        env={**os.environ, "PYTHON": python, "PIP_NO_INDEX": "1"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_an_environment_whose_making_was_interrupted_is_made_again(clone: Path) -> None:
    python = clone / ".venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", clone / ".venv"], check=True, timeout=100)
    make_venv(clone, sys.executable)
    subprocess.run([python, "-c", "import pip"], check=True, timeout=100)


def test_an_old_python_is_one_line_with_what_installs_another(clone: Path) -> None:
    old = clone / "python3.9"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.9.2\n')
    old.chmod(0o755)
    done = make_venv(clone, str(old))
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert line.startswith("pkafka: Python 3.11 or newer is needed, found Python 3.9.2: ")
    gone = make_venv(clone, "/no/such/python")
    assert "found no /no/such/python: " in gone.stderr
