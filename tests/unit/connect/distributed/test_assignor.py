"""How a Connect cluster shares its work out, as traces: tests/scenarios/connect/*.txt.

A step stands above ``----``, what it leads to below: who is given and loses what, and who has what then. A blank line
ends it. PKAFKA_REWRITE=1 writes the files anew; the difference is to be reviewed like code.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkafka.connect.distributed.assignor import Assignors
from pkafka.connect.distributed.group_protocol import Compatibility, ExtendedAssignment
from pkafka.connect.states import TaskName
from pkafka.errors import ProtocolError
from tests.connect_group import Cluster

_FOLDER = Path(__file__).parents[3] / "scenarios" / "connect"
_FILES = sorted(_FOLDER.glob("*.txt"))
_DELAY_MS = 300_000


@pytest.mark.parametrize("file", _FILES, ids=[file.stem for file in _FILES])
def test_trace(file: Path) -> None:
    text = file.read_text()
    actual = "\n".join(_play(text, Trace()))
    if os.environ.get("PKAFKA_REWRITE"):
        file.write_text(actual)
        return
    assert actual == text


def test_there_are_traces() -> None:
    assert len(_FILES) >= 7


class Trace:
    """A cluster, and the lines that say what happens to it."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.assignors = Assignors(_DELAY_MS)

    def version(self, number: str) -> list[str]:
        """Of the protocol."""
        self.cluster = Cluster(Compatibility(int(number)))
        return []

    def configure(self, *counts: str) -> list[str]:
        """The connectors there are from now on: ``name=tasks``."""
        pairs = (each.split("=") for each in counts)
        self.cluster.configure(**{name: int(count) for name, count in pairs})
        return []

    def join(self, *members: str) -> list[str]:
        self.cluster.join(*members)
        return []

    def leave(self, *members: str) -> list[str]:
        for member in members:
            self.cluster.leave(member)
        return []

    def has(self, member: str, *work: str) -> list[str]:
        """A member has connectors (``a``) and tasks (``a-0``), whoever gave them to it."""
        tasks = [
            TaskName(name, int(number))
            for name, _, number in (each.partition("-") for each in work)
            if number
        ]
        connectors = [each for each in work if "-" not in each]
        self.cluster.members[member] = ExtendedAssignment(
            2, 0, "m1", "http://m1:8083/", self.cluster.offset, tuple(connectors), tuple(tasks)
        )
        return []

    def wait(self, ms: str) -> list[str]:
        self.cluster.now_ms += int(ms)
        return []

    def round(self, *deaf: str) -> list[str]:
        """The group comes together; ``deaf`` are those who do not get their answer."""
        cluster = self.cluster
        shared = self.assignors.assign(cluster.version.protocol, cluster.next_round(), cluster.now_ms)
        cluster.take(dict(shared.encoded()), deaf)
        lines = [
            f"generation {cluster.generation}" + f", again in {shared.delay_ms} ms" * bool(shared.delay_ms)
        ]
        for member, told in shared.assignments.items():
            after = cluster.members[member]
            changes = [f"+{each}" for each in (*told.connectors, *told.tasks)]
            changes += [f"-{each}" for each in (*told.revoked_connectors, *told.revoked_tasks)]
            has = sorted(map(str, (*after.connectors, *after.tasks))) if after else []
            lines.append(f"{member}: {' '.join(changes) or 'no change'}; has {' '.join(has) or 'nothing'}")
        return lines


def _play(text: str, trace: Trace) -> Iterator[str]:
    for block in text.rstrip("\n").split("\n\n"):
        comments_and_steps = block.partition("\n----")[0]
        yield comments_and_steps
        yield "----"
        for line in comments_and_steps.splitlines():
            if line.startswith("#"):
                continue
            name, *words = line.split()
            step: Callable[..., list[str]] = getattr(trace, name)
            yield from step(*words)
        yield ""


_EVENTS = st.one_of(
    st.tuples(st.just("join"), st.sampled_from("pqrstuv")),
    st.tuples(st.just("leave"), st.sampled_from("pqrstuv")),
    st.tuples(st.just("wait"), st.sampled_from(["1", "40", "5000", "300000"])),
    st.tuples(st.just("configure"), st.sampled_from(["a=3", "b=9", "c=0", "d=1"])),
    st.tuples(st.just("round"), st.sampled_from("pqrstuv")),
)


@given(events=st.lists(_EVENTS, max_size=30), number=st.sampled_from([0, 1, 2]))
def test_whatever_happened_all_work_has_one_owner_in_the_end(
    events: list[tuple[str, str]], number: int
) -> None:
    trace = Trace()
    trace.version(str(number))
    trace.join("leader")
    cluster = trace.cluster
    for name, word in events:
        if name != "leave" or word in cluster.members:
            getattr(trace, name)(word)
    for _ in range(12):
        trace.wait(str(_DELAY_MS))
        trace.round()
    for connector, count in cluster.connectors.items():
        assert len(cluster.owners(connector)) == 1
        for task in range(count):
            assert len(cluster.task_owners(TaskName(connector, task))) == 1
    loads = [len(each.tasks) if each else 0 for each in cluster.members.values()]
    assert max(loads) - min(loads) <= 1


def test_a_protocol_of_others_is_refused() -> None:
    cluster = Cluster()
    cluster.join("m1")
    with pytest.raises(ProtocolError, match="range"):
        Assignors(1).assign("range", cluster.next_round(), 0)
