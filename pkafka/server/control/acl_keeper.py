"""The rules of the cluster in the control process: read when it boots, followed, changed, and told to the workers."""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol, TypeVar

from pkafka.clock import Clock
from pkafka.coordination.store import Store, StoreError
from pkafka.errors import ApiError, ErrorCode
from pkafka.security.acl import Pattern
from pkafka.server.control.shared_changes import Telling, until_written
from pkafka.server.control.siblings import Siblings
from pkafka.server.ipc import words
from pkafka.server.ipc.peer import Peer
from pkafka.server.security.acl_rows import rows_of
from pkafka.server.security.acl_store import AclStore, Edit, Rules
from pkafka.server.security.acls import Acls
from pkafka.server.security.authorizer import AclAuthorizer

log = logging.getLogger(__name__)

T = TypeVar("T")


class RunOnStore(Protocol):
    """Calls a function on the thread of the store, in its turn, and gives back what it returns or raises."""

    async def __call__(self, function: Callable[..., T], *args: object) -> T: ...


class AclKeeper:
    """Keeps the rules of a broker whose authorizer decides by them. Belongs to the event loop.

    Args:
        authorizer: of the control process.
        siblings: the workers.
        clock: for the age of change notes.
        run_on_store: for what uses the store.
        post: puts a call into the queue of the store's thread.
    """

    def __init__(
        self,
        authorizer: AclAuthorizer,
        siblings: Siblings,
        *,
        clock: Clock,
        run_on_store: RunOnStore,
        post: Callable[[Callable[[], None]], None],
    ) -> None:
        self._authorizer = authorizer
        self._siblings = siblings
        self._run_on_store = run_on_store
        self._loop = asyncio.get_running_loop()
        self._store = AclStore(clock=clock, on_change=self._on_change, post=post)
        self._telling = Telling("ACLs")

    @property
    def acls(self) -> Acls:
        """The rules as this broker knows them."""
        return self._authorizer.acls

    async def start(self, store: Store) -> None:
        """Read the rules, and follow them.

        Raises:
            StoreError: the store failed.
        """
        self._authorizer.replace(await asyncio.to_thread(self._store.start, store))

    async def tell_all(self, peer: Peer) -> None:
        """Tell a worker that has just come all rules."""
        acls = self._authorizer.acls
        rules = {pattern: acls.of(pattern) for pattern in acls.patterns()}
        await peer.call(words.ACLS, rows_of(rules))

    async def change(self, pattern: Pattern, edit: Edit) -> None:
        """Change the entries of a pattern; when this returns, no worker of this broker acts by the old ones.

        Args:
            edit: gives the new entries for the stored ones; may run again after a conflict.

        Raises:
            ApiError: the store cannot be written, or has no place for such a name.
        """
        try:
            await until_written(lambda: self._run_on_store(self._write, pattern, edit))
        except ValueError as error:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR) from error
        except StoreError as error:
            log.warning("The ACLs of %s could not be changed: %s", pattern, error)
            raise ApiError(
                ErrorCode.UNKNOWN_SERVER_ERROR, f"The coordination store failed: {error}"
            ) from error
        await asyncio.sleep(0)  # behind what the write told
        await self._telling.settled()

    def _write(self, pattern: Pattern, edit: Edit) -> None:
        # What a note tells later is newer, so it must not be overtaken by what is told from here.
        self._on_change(self._store.change(pattern, edit))

    def _on_change(self, rules: Rules) -> None:
        """Called on the store's thread, in the order in which the rules were read or written."""
        self._loop.call_soon_threadsafe(self._changed, rules)

    def _changed(self, rules: Rules) -> None:
        new = {
            pattern: entries
            for pattern, entries in rules.items()
            if set(entries) != set(self.acls.of(pattern))
        }
        if not new:
            return
        self._authorizer.change(new)
        self._telling.add(self._siblings.ask_workers(words.ACLS_CHANGED, rows_of(new)))
