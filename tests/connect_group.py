"""A Connect cluster without sockets: workers take assignments over, and any assignor may lead the rounds."""

from collections.abc import Container, Mapping, Sequence

from pkafka.connect.distributed.assignor import Configured, Round
from pkafka.connect.distributed.group_protocol import (
    Compatibility,
    ExtendedAssignment,
    WorkerState,
    decode_assignment,
    decode_state,
    encode_state,
)
from pkafka.connect.states import TaskName


class Cluster:
    """The members of a group with what they have, and the configuration.

    Args:
        version: of the protocol.
    """

    def __init__(self, version: Compatibility = Compatibility.SESSIONED) -> None:
        self.version = version
        self.now_ms = 1_000
        self.offset = 1
        self.connectors: dict[str, int] = {}
        self.generation = 0
        self.completed = -1
        """The last generation of which the leader got its own assignment."""
        self.members: dict[str, ExtendedAssignment | None] = {}

    def configure(self, **tasks: int) -> None:
        """The connectors there are from now on, with the number of their tasks."""
        self.connectors = tasks
        self.offset += 1

    def join(self, *members: str) -> None:
        """Workers come, with nothing."""
        self.members |= dict.fromkeys(members)

    def leave(self, member: str) -> None:
        """A worker goes, without a word."""
        del self.members[member]

    def next_round(self, order: Sequence[str] | None = None) -> Round:
        """The group comes together.

        Args:
            order: of the members in the coordinator's answer; the first leads.
        """
        self.generation += 1
        order = order or list(self.members)
        states: Mapping[str, WorkerState] = {
            member: decode_state(
                encode_state(WorkerState(url(member), self.offset, self.members[member]), self.version)
            )[1]
            for member in order
        }
        configured = Configured(self.offset, self.connectors)
        return Round(states, order[0], configured, self.generation, self.completed)

    def take(self, given: Mapping[str, bytes], deaf: Container[str] = (), *, leader: bool = True) -> None:
        """The workers take over what they were given.

        Args:
            deaf: the members that do not get their answer.
            leader: whether the leader did.
        """
        for member, data in given.items():
            if member not in deaf:
                new = decode_assignment(data)
                owned = None if self.version is Compatibility.EAGER else self.members[member]
                self.members[member] = new.after(owned)
        if leader:
            self.completed = self.generation

    def owners(self, connector: str) -> list[str]:
        """Who has a connector."""
        return sorted(name for name, each in self.members.items() if each and connector in each.connectors)

    def task_owners(self, task: TaskName) -> list[str]:
        """Who has a task."""
        return sorted(name for name, each in self.members.items() if each and task in each.tasks)


def url(member: str) -> str:
    """Where a worker's REST API is."""
    return f"http://{member}:8083/"
