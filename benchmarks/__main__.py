"""``python -m benchmarks``: alternate between the systems, scenario by scenario, and print a table of each.

Nothing else should run on the machine meanwhile. The whole takes hours; ``--quick`` shows within minutes that
everything works, with figures that mean little.
"""

import argparse
import contextlib
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.model import WARM_UP_S, Scenario, Settings
from benchmarks.python_build import this_python
from benchmarks.registry import SCENARIOS
from benchmarks.report import Report
from benchmarks.systems import Systems, Target, settle
from pkafka.errors import PkafkaError
from pkafka.hot_path import is_compiled

RESULTS = Path(__file__).parent / "results"


def main() -> int:
    """Run what the command line asks for; 1 when a scenario failed (a missed bar is no failure)."""
    options = _options()
    if options.list:
        print("\n".join(f"{name:<28}{scenario.about}" for name, scenario in SCENARIOS.items()))
        return 0
    chosen = [SCENARIOS[name] for name in options.scenario or SCENARIOS]
    hot_path = "compiled" if is_compiled() else "not compiled"
    document: dict[str, Any] = {
        "machine": f"{os.cpu_count()} cores, {platform.platform()}, {this_python()}, hot path {hot_path}",
        "rounds": options.rounds,
        "seconds": options.seconds,
        "quick": options.quick,
        "scenarios": {},
    }
    print(document["machine"], end="\n\n", flush=True)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    failed = False
    for scenario in chosen:
        settings = Settings(options.seconds, options.rounds, options.quick)
        directory = Path(tempfile.mkdtemp(prefix="pkafka-bench-", dir=options.directory))
        try:
            report = _run(scenario, options.systems, settings, Systems(directory))
        finally:
            shutil.rmtree(directory, ignore_errors=True)
        print("\n".join(report.lines()), end="\n\n", flush=True)
        failed = failed or bool(report.failures)
        document["scenarios"][scenario.name] = report.as_json()
        # After each, so that a run that is interrupted has its results.
        options.output.write_text(json.dumps(document, indent=1) + "\n")
    print(f"Also in {options.output}")
    return 1 if failed else 0


def _run(scenario: Scenario, names: list[str], settings: Settings, systems: Systems) -> Report:
    report = Report(scenario, {name: [] for name in names})
    with contextlib.ExitStack() as stack:
        targets: list[Target] = []
        for name in names:
            more = scenario.settings() if scenario.settings is not None else {}
            target = stack.enter_context(
                systems.target(name, started=scenario.started, tls=scenario.tls, more=more)
            )
            targets.append(target)
            with _failures(report, f"{name}, before the rounds"):
                if scenario.beside is not None:
                    target.beside = stack.enter_context(scenario.beside(target))
                if scenario.prepare is not None:
                    scenario.prepare(target, settings)
                if scenario.warm_up and name == "kafka":
                    _warm_up(scenario, target, settings)
        for number in range(settings.rounds):
            for target in targets:
                settle(systems.directory)
                with _failures(report, f"{target.name}, round {number + 1}"):
                    report.rounds[target.name].append(scenario.measure(target, settings))
    return report


def _warm_up(scenario: Scenario, target: Target, settings: Settings) -> None:
    seconds = min(settings.seconds, WARM_UP_S) if settings.quick else WARM_UP_S
    scenario.measure(target, Settings(seconds, 1, settings.quick, settings.kafka))


@contextlib.contextmanager
def _failures(report: Report, where: str) -> Iterator[None]:
    try:
        yield
    except (OSError, RuntimeError, TimeoutError, ValueError, AssertionError, PkafkaError) as error:
        report.failures.append(f"{where}: {type(error).__name__}: {str(error)[:300]}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=str(__doc__).split("\n\n")[0])
    parser.add_argument(
        "--scenario", action="append", choices=SCENARIOS, metavar="NAME", help="repeatable; default: all"
    )
    parser.add_argument("--list", action="store_true", help="name the scenarios")
    parser.add_argument(
        "--systems",
        type=lambda text: text.split(","),
        default=["kafka", "pkafka", "pkafka-n1"],
        help=f"comma-separated, of {', '.join(Systems.NAMES)}; kafka first, as ratios are to it",
    )
    parser.add_argument("--rounds", type=int, help="alternations (5; quick: 2)")
    parser.add_argument("--seconds", type=float, help="length of a round (20; quick: 3)")
    parser.add_argument("--quick", action="store_true", help="small and short: does everything work?")
    parser.add_argument(
        "--directory", type=Path, help="where data directories are made; default: the system's"
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=RESULTS / f"{time.strftime('%Y%m%d-%H%M%S')}.json",
        help="the JSON file",
    )
    options = parser.parse_args()
    options.rounds = options.rounds or (2 if options.quick else 5)
    options.seconds = options.seconds or (3.0 if options.quick else 20.0)
    unknown = set(options.systems) - set(Systems.NAMES)
    if unknown:
        parser.error(f"unknown systems: {', '.join(sorted(unknown))}")
    return options


if __name__ == "__main__":
    sys.exit(main())
