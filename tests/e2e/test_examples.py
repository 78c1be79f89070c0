"""The examples hold what they say: each is run as users run it, and asserts it itself."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from pkafka.testing import Broker

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

FOLDER: Final = Path(__file__).parents[2] / "examples"
SHARED: Final = "scene"
EXAMPLES: Final = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != SHARED)
# These need a broker of their own: to kill it, or to have it compact at once. So they also show that it works.
ALONE: Final = ("redundant_storage", "state_store")


def run(name: str, *words: str, files: Path) -> str:
    """Run an example; what it says."""
    done = subprocess.run(
        [sys.executable, FOLDER / f"{name}.py", *words],
        capture_output=True,
        text=True,
        timeout=200,
        env={**os.environ, "TMPDIR": str(files)},
        cwd=files,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(files.iterdir()) == []
    return done.stdout


@pytest.mark.parametrize("name", [each for each in EXAMPLES if each not in ALONE])
def test_an_example(name: str, pkafka_broker: Broker, tmp_path: Path) -> None:
    said = run(name, "--bootstrap-server", pkafka_broker.bootstrap, files=tmp_path)
    assert len(said.split("\n\n")[-1].splitlines()) >= 2


@pytest.mark.parametrize("name", ALONE)
def test_an_example_with_a_broker_of_its_own(name: str, tmp_path: Path) -> None:
    said = run(name, files=tmp_path)
    if name == "state_store":
        before, after = map(int, re.findall(r"by reading (\d+) records", said))
        assert before == 5_001
        assert after < before / 4


def test_the_list_has_all_of_them() -> None:
    listed = re.findall(
        r"^\| \[(\w+)\.py\]\(\1\.py\)", (FOLDER / "README.md").read_text("utf-8"), re.MULTILINE
    )
    assert sorted(listed) == EXAMPLES
