"""The search for a command line that a command cannot take: what two modules of tests do, without and with a broker."""

import gc
import itertools
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from hypothesis import HealthCheck, given, settings

from pkafka.cli.kit.exit_status import ExitStatus
from tests.command_lines import SECRET, Leaf, Line, lines, lines_of_each_flag
from tests.in_process import Outcome, run

LONG_S: Final = 1_800
"""As long as a search of one command may take with Hypothesis's profile `deep`."""
_ENDLESS_S: Final = 0.4
"""How long what goes on for ever, or for as long as it is told, may go on."""
_END_S: Final = 60.0
"""Far more than anything here takes: a machine may be busy."""


def check_any_input(leaf: Leaf, servers: str, place: Path, *, share: float) -> None:
    """See that a command bears whatever it is given.

    Args:
        servers: where a broker is, or none.
        place: for the folder that it runs in.
        share: of the examples that Hypothesis's profile asks for.
    """

    @given(lines(leaf, servers))
    @settings(
        max_examples=max(5, int(settings().max_examples * share)), suppress_health_check=list(HealthCheck)
    )
    def check(line: Line) -> None:
        _check(leaf, line, servers, place)

    check()
    gc.collect()  # what Ctrl-C left open, lest it is found while another test runs, which allows for none


def check_each_flag(leaf: Leaf, servers: str, place: Path) -> None:
    """The same of every flag alone."""
    for line in lines_of_each_flag(leaf, servers):
        _check(leaf, line, servers, place)
    gc.collect()


def _check(leaf: Leaf, line: Line, servers: str, place: Path) -> None:
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
        ports=[int(servers.rpartition(":")[2])],
        seconds=_ENDLESS_S if line.is_endless else _END_S,
    )
    found = objections(words, outcome, is_endless=line.is_endless)
    if found:
        said = f"{outcome.out!r}\n{outcome.err}"
        raise AssertionError(f"{leaf.main.name} {words}: {found}\n{said}") from outcome.error


_STATUSES: Final = frozenset({*ExitStatus, 126, 127})
_TOLD_ON_STDOUT: Final = frozenset({ExitStatus.FAILURE})
"""Where what is wrong may be said to standard output alone: it is the answer, as of a check, or Kafka's own text."""


def objections(words: Sequence[str], outcome: Outcome, *, is_endless: bool) -> list[str]:
    """What is wrong with what a command did."""
    found = [*outcome.complaints]
    status = outcome.status
    if not isinstance(status, int) or status not in _STATUSES:
        found.append(f"it ends with {status!r}")
    if outcome.was_interrupted and not is_endless:
        found.append("it did not end by itself")
    is_told = outcome.err.strip() or (status in _TOLD_ON_STDOUT and outcome.out.strip())
    if status not in (ExitStatus.OK, ExitStatus.INTERRUPTED) and not is_told:
        found.append(f"it ends with {status} and does not say why")
    if SECRET in outcome.err or SECRET.encode() in outcome.out:
        found.append("a secret is shown")
    return found + _no_json(words, outcome)


def _no_json(words: Sequence[str], outcome: Outcome) -> list[str]:
    """Whether JSON was asked for and something else came."""
    forms = [other for one, other in itertools.pairwise(words) if one == "--output"]
    forms += [word.partition("=")[2] for word in words if word.startswith("--output=")]
    if len(forms) != 1 or forms[0] not in ("json", "jsonl") or {"-h", "--help", "--version"} & {*words}:
        return []
    if outcome.status == _NO_SUCH_VERB:
        return []
    try:
        text = outcome.out.decode()
        for each in [text] if forms[0] == "json" else filter(None, text.split("\n")):
            json.loads(each)
    except ValueError as error:
        return [f"this is no {forms[0]}: {error}: {outcome.out[:200]!r}"]
    return []


_NO_SUCH_VERB: Final = 127
"""Of ZooKeeper's shell, which answers that with its usage."""
