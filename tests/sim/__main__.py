"""``python -m tests.sim [--trace] SEED...``: run simulations, one line each. A range is written FROM-TO."""

import argparse
import contextlib
import logging
import os
import shutil
import sys
import tempfile
import traceback
import warnings
from pathlib import Path

from pkafka.hot_path import is_compiled
from tests.sim.cluster import Plan, simulate
from tests.sim.mutants import MUTANTS, UNSEEN, mutant

_FIXED_HASHES = "0"
_CANNOT_RUN = 2


def main() -> int:
    # The order of sets of texts is a part of what the seed decides.
    wanted = {"PYTHONHASHSEED": _FIXED_HASHES}
    if is_compiled():
        # The checker and the mutants replace methods, and compiled code would go on with those of before.
        wanted["PKAFKA_PURE"] = "1"
    if any(os.environ.get(name) != value for name, value in wanted.items()):
        os.execve(
            sys.executable, [sys.executable, "-m", "tests.sim", *sys.argv[1:]], {**os.environ, **wanted}
        )
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("seeds", nargs="+", help="numbers, or ranges FROM-TO")
    parser.add_argument("--trace", action="store_true", help="print all that happens")
    parser.add_argument("--seconds", type=float, default=Plan().faults_s, help="how long there are faults")
    parser.add_argument("--fault", action="append", default=[], help="only these")
    parser.add_argument("--mutant", choices=[*MUTANTS, *UNSEEN], help="break the real code in this way")
    parser.add_argument("--keep-going", action="store_true", help="do not end at the first failure")
    arguments = parser.parse_args()
    logging.getLogger().setLevel(logging.INFO)
    # What a process that was killed was about to await.
    warnings.simplefilter("ignore", RuntimeWarning)
    failed = 0
    for seed in _seeds(arguments.seeds):
        # Each in a process of its own, from the same beginning: what one leaves in memory would be a part of what
        # decides the next, and no seed could be played again alone.
        child = os.fork()
        if not child:
            code = _CANNOT_RUN
            try:
                code = _run(seed, arguments)
            except BaseException:  # noqa: BLE001 - the parent goes on
                traceback.print_exc()
            sys.stdout.flush()
            os._exit(code)
        _, status = os.waitpid(child, 0)
        if status:
            failed += 1
            if not arguments.keep_going:
                break
    return 1 if failed else 0


def _run(seed: int, arguments: argparse.Namespace) -> int:
    root = Path(tempfile.mkdtemp(prefix=f"sim-{seed}-", dir=_memory()))
    try:
        with mutant(arguments.mutant) if arguments.mutant else contextlib.nullcontext():
            outcome = simulate(seed, root, Plan(arguments.seconds, tuple(arguments.fault)))
    finally:
        shutil.rmtree(root, ignore_errors=True)
    if arguments.trace:
        print("\n".join(outcome.trace))
    print(outcome.line(f"--mutant '{arguments.mutant}' " if arguments.mutant else ""))
    return 1 if outcome.violations else 0


def _seeds(texts: list[str]) -> list[int]:
    found: list[int] = []
    for text in texts:
        first, _, last = text.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def _memory() -> str | None:
    """A file system in memory, where there is one."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


if __name__ == "__main__":
    sys.exit(main())
