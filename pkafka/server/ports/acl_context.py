"""The port of the handlers that change ACLs: the control process implements it, tests replace it."""

from collections.abc import Callable, Iterable
from typing import Protocol

from pkafka.security.acl import Entry, Pattern
from pkafka.server.ports.authorized import WithRights
from pkafka.server.security.acls import Acls
from pkafka.server.security.authorizer import Authorizer


class AclChanges(Protocol):
    """Keeps the rules of the cluster."""

    @property
    def acls(self) -> Acls:
        """The rules as this broker knows them."""
        ...

    async def change(self, pattern: Pattern, edit: Callable[[tuple[Entry, ...]], Iterable[Entry]], /) -> None:
        """Change the entries of a pattern; when this returns, no worker of this broker acts by the old ones.

        Args:
            edit: gives the new entries for the stored ones; may run again after a conflict.

        Raises:
            ApiError: the store cannot be written, or has no place for such a name.
        """
        ...


class AclContext(WithRights, Protocol):
    """The control process, as these handlers see it."""

    @property
    def authorizer(self) -> Authorizer | None:
        """None where every client may do everything."""
        ...

    @property
    def acls(self) -> AclChanges | None:
        """None where no ACLs are kept."""
        ...


def security_disabled(context: AclContext) -> str:
    """Why no ACLs are kept, in Kafka's words where there is no authorizer."""
    return "No Authorizer is configured." if context.authorizer is None else "The authorizer has no ACLs."
