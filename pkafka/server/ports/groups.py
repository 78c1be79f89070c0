"""The port of the handlers of groups' requests: the worker implements it, tests replace it."""

from typing import Protocol

from pkafka.server.groups.routing import GroupRouter


class GroupPort(Protocol):
    """A worker, as requests about one group or several see it."""

    @property
    def routing(self) -> GroupRouter:
        """Finds the worker that coordinates a group, which may be another one."""
        ...
