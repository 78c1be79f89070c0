"""ACLs read and written in ZooKeeper itself, which goes before the first broker runs."""

import queue
from collections.abc import Callable, Iterable, Sequence

from pkafka.clients.admin.outcomes import Outcome
from pkafka.clock import SystemClock
from pkafka.coordination.store import BadVersionError, NodeExistsError, NoNodeError, Store
from pkafka.errors import ApiError, ErrorCode
from pkafka.security.acl import ANY_ACL, Acl, AclFilter, Entry, Pattern
from pkafka.server.security.acl_store import AclStore, Rules
from pkafka.server.security.acls import Acls

_ATTEMPTS = 11


class AclsInStore:
    """Reads and changes rules as an admin client does, without a broker.

    Args:
        store: of the cluster.
    """

    def __init__(self, store: Store) -> None:
        self._acls = Acls()
        self._posted: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._store = AclStore(clock=SystemClock(), on_change=self._changed, post=self._posted.put)
        self._acls.replace(self._store.start(store))

    def _changed(self, rules: Rules) -> None:
        for pattern, entries in rules.items():
            self._acls.put(pattern, entries)

    def describe_acls(self, wanted: AclFilter = ANY_ACL) -> list[Acl]:
        """The rules that a filter chooses."""
        return list(self._acls.chosen(wanted))

    def create_acls(self, acls: Sequence[Acl]) -> dict[Acl, Outcome[None]]:
        """Add rules; one that is there already stays.

        Raises:
            StoreError: ZooKeeper does not answer.
        """
        outcomes: dict[Acl, Outcome[None]] = {}
        for pattern in dict.fromkeys(acl.pattern for acl in acls):
            entries = [acl.entry for acl in acls if acl.pattern == pattern]
            outcome = self._change(pattern, lambda stored, new=entries: (*stored, *new))  # type: ignore[misc]
            outcomes.update({Acl(pattern, entry): outcome for entry in entries})
        return outcomes

    def delete_acls(self, filters: Iterable[AclFilter]) -> dict[AclFilter, Outcome[dict[Acl, Outcome[None]]]]:
        """Remove the rules that filters choose.

        Raises:
            StoreError: ZooKeeper does not answer.
        """
        outcomes: dict[AclFilter, Outcome[dict[Acl, Outcome[None]]]] = {}
        for one in filters:
            chosen = self.describe_acls(one)
            deleted: dict[Acl, Outcome[None]] = {}
            for pattern in dict.fromkeys(acl.pattern for acl in chosen):
                gone = {acl.entry for acl in chosen if acl.pattern == pattern}
                outcome = self._change(
                    pattern,
                    lambda stored, old=gone: [each for each in stored if each not in old],  # type: ignore[misc]
                )
                deleted.update({Acl(pattern, entry): outcome for entry in gone})
            outcomes[one] = deleted
        return outcomes

    def _change(
        self, pattern: Pattern, edit: Callable[[tuple[Entry, ...]], Iterable[Entry]]
    ) -> Outcome[None]:
        for _ in range(_ATTEMPTS):
            try:
                self._changed(self._store.change(pattern, edit))
            except (BadVersionError, NodeExistsError, NoNodeError):
                continue  # a broker was faster
            except ValueError:
                return ApiError(ErrorCode.INVALID_REQUEST, f"{pattern.name} cannot be a name in ZooKeeper")
            return None
        return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "The ACLs are being changed all the time.")
