"""What workers of one cluster ask of each other, signed with the key that all of them know (KIP-507)."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from pkafka.connect.errors import ConnectError
from pkafka.connect.rest.calls import EMPTY, Answer, Call, Handler, texts


class InternalHerder(Protocol):
    """Does what other workers ask; see :class:`~pkafka.connect.distributed.herder.DistributedHerder`."""

    def put_tasks(
        self, name: str, tasks: Sequence[Mapping[str, str]], body: bytes, headers: Mapping[str, str]
    ) -> None: ...
    def fence(self, name: str, body: bytes, headers: Mapping[str, str]) -> None: ...


class Internal:
    """Answers requests of other workers.

    Args:
        herder: does what they ask for.
    """

    def __init__(self, herder: InternalHerder) -> None:
        self._herder = herder

    def routes(self) -> dict[tuple[str, str], Handler]:
        """By method and path, what answers."""
        return {
            ("POST", "/connectors/{connector}/tasks"): self._put_tasks,
            ("PUT", "/connectors/{connector}/fence"): self._fence,
        }

    def _put_tasks(self, call: Call) -> Answer:
        found = call.document()
        if not isinstance(found, list):
            raise ConnectError("The body of the request has to be the configurations of tasks, a JSON array")
        tasks = [texts(call.configs(each)) for each in found]
        self._herder.put_tasks(call.name(), tasks, call.body, call.headers)
        return Answer(200, EMPTY)

    def _fence(self, call: Call) -> Answer:
        self._herder.fence(call.name(), call.body, call.headers)
        return Answer(200, EMPTY)
