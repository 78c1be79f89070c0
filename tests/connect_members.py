"""Members of a Connect group with a herder's thread each that runs nothing, but says what it was told."""

import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Final

from pkafka.connect.distributed.assignor import Assignors, Configured
from pkafka.connect.distributed.group_member import GroupMember, MemberSettings
from pkafka.connect.distributed.group_protocol import Compatibility, ExtendedAssignment
from pkafka.connect.states import TaskName

JOIN_TIMEOUT_S: Final = 60.0


class Herd:
    """One worker.

    Args:
        bootstrap: of the Kafka cluster.
        group: its id.
        name: of the worker; becomes its URL.
        configured: what the workers have read of the configuration.
        max_delay_ms: ``scheduled.rebalance.max.delay.ms``.
        compatibility, session_timeout_ms, rebalance_timeout_ms: of the membership.
        offset: up to which it has read the configuration.
        reads_on: it reads as far as the others when a leader could not assign.
    """

    def __init__(
        self,
        bootstrap: str,
        group: str,
        name: str,
        configured: Mapping[str, int],
        *,
        max_delay_ms: int = 500,
        compatibility: Compatibility = Compatibility.SESSIONED,
        session_timeout_ms: int = 60_000,
        rebalance_timeout_ms: int = 60_000,
        offset: int = 1,
        reads_on: bool = False,
    ) -> None:
        self.url = f"http://{name}:8083/"
        self.configured = Configured(offset, configured)
        self._reads_on = reads_on
        self.connectors: set[str] = set()
        self.tasks: set[TaskName] = set()
        self.assignments: list[ExtendedAssignment] = []
        self.revocations: list[tuple[set[str], set[TaskName]]] = []
        self.error: BaseException | None = None
        self.may_revoke = threading.Event()
        """Clear while stopping takes long."""
        self.may_revoke.set()
        self.is_revoking = threading.Event()
        self._stopped = threading.Event()
        self._delay_s: float | None = None
        self.member = GroupMember(
            {"bootstrap.servers": bootstrap, "client.id": name},
            MemberSettings(group, self.url, compatibility, session_timeout_ms, 300, rebalance_timeout_ms),
            lambda: self.configured,
            Assignors(max_delay_ms).assign,
            self,
        )
        self._thread = threading.Thread(target=self._run, name=name)

    # -- the listener --

    def on_assigned(self, assignment: ExtendedAssignment, _generation: int) -> None:
        self.connectors, self.tasks = set(assignment.connectors), set(assignment.tasks)
        self._delay_s = assignment.delay_ms / 1000 if assignment.delay_ms else None
        if assignment.revoked_connectors or assignment.revoked_tasks:
            self.member.request_rejoin("others may have what was revoked")  # as a herder does
        if assignment.failed and self._reads_on:
            self.configured = self.configured._replace(offset=assignment.config_offset)
        self.assignments.append(assignment)

    def on_revoked(self, _leader: str, connectors: Collection[str], tasks: Collection[TaskName]) -> None:
        self.is_revoking.set()
        assert self.may_revoke.wait(JOIN_TIMEOUT_S)
        self.connectors = self.connectors - set(connectors)
        self.tasks = self.tasks - set(tasks)
        self.revocations.append((set(connectors), set(tasks)))

    # -- the herder's thread --

    def _run(self) -> None:
        try:
            self.member.start()
            while not self._stopped.is_set():
                self.member.ensure_active()
                seen = len(self.assignments)
                self.member.poll(10.0 if self._delay_s is None else self._delay_s)
                if self._delay_s is not None and len(self.assignments) == seen:
                    self._delay_s = None
                    self.member.request_rejoin("the scheduled delay is over")
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.error = error
        finally:
            self.member.stop()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Leave the group."""
        self._stopped.set()
        self.may_revoke.set()
        self.member.wakeup()
        if self._thread.is_alive():
            self._thread.join(JOIN_TIMEOUT_S)
        assert not self._thread.is_alive()

    @property
    def has(self) -> int:
        """How many connectors and tasks."""
        return len(self.connectors) + len(self.tasks)


class Herds:
    """Several workers of one cluster, ended together."""

    def __init__(self, bootstrap: str, group: str, configured: Mapping[str, int]) -> None:
        self._given = (bootstrap, group)
        self.configured = configured
        self._stack = ExitStack()
        self.all: dict[str, Herd] = {}

    def add(self, name: str, **settings: object) -> Herd:
        """One more worker, which joins."""
        herd = Herd(*self._given, name, self.configured, **settings)  # type: ignore[arg-type]
        self._stack.callback(herd.stop)
        self.all[name] = herd
        herd.start()
        return herd

    def is_shared(self, *names: str) -> bool:
        """Whether these workers have all the work, each part of it once."""
        herds = [self.all[name] for name in names]
        connectors = sorted(each for herd in herds for each in herd.connectors)
        tasks = sorted(each for herd in herds for each in herd.tasks)
        wanted = [
            TaskName(name, number) for name, count in self.configured.items() for number in range(count)
        ]
        return (
            connectors == sorted(self.configured)
            and tasks == sorted(wanted)
            and all(each.has for each in herds)
        )

    def close(self) -> None:
        self._stack.close()


@contextmanager
def herds(bootstrap: str, group: str, configured: Mapping[str, int]) -> Iterator[Herds]:
    """Workers, ended on leaving."""
    found = Herds(bootstrap, group, configured)
    try:
        yield found
    finally:
        found.close()
