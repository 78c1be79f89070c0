"""The search for a command line that a command cannot take: what two modules of tests do, without and with a broker."""

import shutil
from pathlib import Path
from typing import Final

from hypothesis import HealthCheck, given, settings

from tests.command_lines import Leaf, Line, lines, objections
from tests.in_process import run

LONG_S: Final = 1_800
"""As long as a search of one command may take with Hypothesis's profile `deep`."""
_ENDLESS_S: Final = 0.2
_END_S: Final = 30.0
"""Far more than anything here takes: a machine may be busy."""


def check_any_input(leaf: Leaf, servers: str, place: Path, *, share: float) -> None:
    """See that a command bears whatever it is given.

    Args:
        servers: where a broker is, or none.
        place: for the folder that it runs in.
        share: of the examples that Hypothesis's profile asks for.
    """
    port = int(servers.rpartition(":")[2])

    @given(lines(leaf, servers))
    @settings(
        max_examples=max(5, int(settings().max_examples * share)), suppress_health_check=list(HealthCheck)
    )
    def check(line: Line) -> None:
        folder = place / "folder"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        words = line.on_disk(folder)
        outcome = run(
            leaf.main.main,
            words,
            folder=folder,
            stdin=line.stdin,
            environment=line.environment,
            ports=[port],
            seconds=_ENDLESS_S if line.is_endless else _END_S,
        )
        found = objections(words, outcome, is_endless=line.is_endless)
        if found:
            said = f"{outcome.out!r}\n{outcome.err}"
            raise AssertionError(f"{leaf.main.name} {words}: {found}\n{said}") from outcome.error

    check()
