"""Which Python counts as built with optimisation, and which one benchmarks run with."""

import shutil
import subprocess
from pathlib import Path

import pytest

from benchmarks.python_build import is_optimised

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("prefix", "arguments", "expected"),
    [
        ("/opt/python", "'--prefix=/opt/python' '--enable-optimizations' '--with-lto'", True),
        ("/opt/python", "'--prefix=/opt/python' '--enable-shared'", False),
        ("/usr", "'--prefix=/usr' '--enable-shared'", True),
    ],
)
def test_an_optimised_build_is_known_by_its_flags_or_its_distribution(
    prefix: str, arguments: str, expected: bool
) -> None:
    assert is_optimised(prefix, {"CONFIG_ARGS": arguments}) is expected
    assert is_optimised("/opt/python", {}) is False


def python(path: Path, *, optimised: bool) -> None:
    """A program that passes for a Python, new enough."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\n[ "$1" = -c ] || exit {0 if optimised else 1}\n')
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("own", "other", "expected"),
    [(True, True, ".venv/bin/python"), (False, True, "python3.13"), (True, False, ".venv/bin/python")],
)
def test_benchmarks_prefer_a_python_that_was_built_with_optimisation(
    own: bool, other: bool, expected: str, tmp_path: Path
) -> None:
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "bench-copy.sh", tmp_path / "scripts")
    (tmp_path / "scripts" / "compiled-copy.sh").write_text(
        'mkdir -p "$1/benchmarks"; echo "$PYTHON" > made\n'
    )
    python(tmp_path / ".venv" / "bin" / "python", optimised=own)
    python(tmp_path / "bin" / "python3.13", optimised=other)
    done = subprocess.run(
        ["sh", "scripts/bench-copy.sh"],
        cwd=tmp_path,
        env={"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == ".bench\n"
    assert (
        (tmp_path / ".bench" / "benchmarks" / "results")
        .resolve(strict=True)
        .is_relative_to(tmp_path / "benchmarks")
    )
    assert (tmp_path / "made").read_text().removeprefix(f"{tmp_path}/") == f"{expected}\n"
