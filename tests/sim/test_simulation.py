"""The whole cluster under faults that a seed decides (docs/simulation.md).

Each run is a process of its own, with fixed hashes. A failure prints the seed and the command that plays it again;
``PKAFKA_SIM_SEEDS=17`` or ``=1-500`` runs those seeds in place of the fixed ones.
"""

import datetime
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sim.mutants import FAULTS, MUTANTS

_ASKED_FOR = os.environ.get("PKAFKA_SIM_SEEDS", "").split()
_ROOT = Path(__file__).parents[2]
_FIXED = ("1", "2", "3", "4")
"""Enough to notice what is badly broken, within half a minute of work."""
_FIXED_S = "10"
_NIGHTLY_CHUNKS = 60
_NIGHTLY_SEEDS = 50
_MUTANT_SEEDS = "1-150"


def run(*arguments: str, timeout_s: float) -> subprocess.CompletedProcess[str]:
    """``python -m tests.sim``."""
    return subprocess.run(
        [sys.executable, "-m", "tests.sim", *arguments],
        cwd=_ROOT,
        env={**os.environ, "PYTHONHASHSEED": "0"},
        text=True,
        capture_output=True,
        timeout=timeout_s,
        check=False,
    )


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seeds", _ASKED_FOR or _FIXED)
def test_promises_hold_under_faults(seeds: str) -> None:
    shorter = () if _ASKED_FOR else ("--seconds", _FIXED_S)
    outcome = run(*shorter, seeds, timeout_s=580)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("chunk", range(_NIGHTLY_CHUNKS))
def test_promises_hold_under_thousands_of_schedules(chunk: int) -> None:
    day = datetime.datetime.now(tz=datetime.UTC).toordinal()
    first = (day * _NIGHTLY_CHUNKS + chunk) * _NIGHTLY_SEEDS
    outcome = run("--keep-going", f"{first}-{first + _NIGHTLY_SEEDS - 1}", timeout_s=1780)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_a_seed_decides_everything() -> None:
    first, second = (run("--trace", "--seconds", "12", "77", timeout_s=140).stdout for _ in range(2))
    assert "seed 77" in first
    assert first == second


@pytest.mark.nightly
@pytest.mark.timeout(2_400)
@pytest.mark.parametrize("name", MUTANTS)
def test_what_is_broken_is_found(name: str) -> None:
    faults = [word for fault in FAULTS.get(name, ()) for word in ("--fault", fault)]
    outcome = run("--mutant", name, *faults, _MUTANT_SEEDS, timeout_s=2_300)
    assert outcome.returncode == 1, f"nobody noticed that {name}:\n{outcome.stdout}{outcome.stderr}"
    assert "again: " in outcome.stdout
