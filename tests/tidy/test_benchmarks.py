"""The benchmarks are a program of their own: no test runner has to be there."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
WITHOUT_PYTEST = """
import runpy, sys
sys.modules["pytest"] = None
sys.argv = ["benchmarks", "--help"]
runpy.run_module("benchmarks", run_name="__main__")
"""


def test_benchmarks_run_without_pytest() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PYTEST],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "--quick" in done.stdout
