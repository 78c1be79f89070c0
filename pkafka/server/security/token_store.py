"""Delegation tokens as they are stored: loaded from the coordination store, followed by their change notes, written.

A token is a node, /delegation_token/tokens/ID. A change of it is written in one step with a note in
/delegation_token/token_changes, which every broker watches. All as in Kafka, so that both kinds of broker can share a
cluster; only that Kafka writes node and note in two steps.

Everything here runs on the thread that may use the store.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from pkafka.clock import Clock
from pkafka.coordination.change_notes import FollowedNotes
from pkafka.coordination.store import (
    CreateOp,
    DeleteOp,
    Op,
    SetOp,
    Stat,
    Store,
    check_path,
)
from pkafka.coordination.znode_json import ZnodeFormatError
from pkafka.coordination.znodes_security import (
    TOKEN_CHANGES,
    TOKEN_PERSISTENT_PATHS,
    TOKENS,
    DelegationToken,
    TokenChange,
)
from pkafka.security.principal import Principal

log = logging.getLogger(__name__)

_NOTE_PREFIX: Final = "token_change_"

Tokens = Mapping[str, DelegationToken | None]
"""Tokens by id; None for one that is gone."""
Edit = Callable[[DelegationToken | None], DelegationToken | None]
"""Gives the new state of a token for the stored one, None standing for none; may run again after a conflict."""


class TokenStore:
    """Reads, follows and writes the delegation tokens of a cluster.

    Args:
        clock: for the age of change notes.
        on_change: told of the tokens that notes name, as they are now.
        post: puts a call into the queue of the store's thread; called from the store's internal thread.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        on_change: Callable[[Tokens], None],
        post: Callable[[Callable[[], None]], None],
    ) -> None:
        self._on_change = on_change
        self._notes = FollowedNotes(
            "delegation tokens", (TOKEN_CHANGES,), _NOTE_PREFIX, clock, read=self._read_changed, post=post
        )

    def start(self, store: Store) -> dict[str, DelegationToken]:
        """Follow the changes of tokens from now on, and read what there is.

        Raises:
            StoreError: the store failed.
        """
        self._notes.begin(store, TOKEN_PERSISTENT_PATHS)
        found = _read(store, store.children(TOKENS))
        self._notes.purge()
        return {token_id: token for token_id, token in found.items() if token is not None}

    def change(self, token_id: str, edit: Edit) -> DelegationToken | None:
        """Try once to change a token, and leave a note; no other change is lost.

        Returns:
            The token as it is now.

        Raises:
            ApiError: what ``edit`` raises.
            BadVersionError, NodeExistsError, NoNodeError: another broker was faster; try again.
            StoreError: the store failed; after a lost connection the change may still be made.
        """
        store, path = self._notes.store(), DelegationToken.path(token_id)
        node = store.get_many([path])[0]
        old = _decoded(path, node)
        new = edit(old)
        if new != old or (new is None and node is not None):
            note = CreateOp(TokenChange.create_path(), TokenChange(token_id).encode(), sequential=True)
            store.multi([_write(path, node, new), note])
        self._on_change({token_id: new})
        return new

    def process_notes(self) -> None:
        """Read the tokens afresh whose notes came since the last call, then remove the notes that are old."""
        self._notes.process()

    def _read_changed(self, store: Store, notes: Sequence[bytes]) -> None:
        changed = _read(store, _named_in(notes))
        if changed:
            self._on_change(changed)


def _write(path: str, node: tuple[bytes, Stat] | None, token: DelegationToken | None) -> Op:
    """What brings a node to a new state, provided that it is still as it was read."""
    if token is None:
        assert node is not None
        return DeleteOp(path, version=node[1].version)
    return CreateOp(path, token.encode()) if node is None else SetOp(path, token.encode(), node[1].version)


def _read(store: Store, token_ids: Iterable[str]) -> Tokens:
    ids = list(dict.fromkeys(token_ids))
    paths = [DelegationToken.path(one) for one in ids]
    nodes = store.get_many(paths)
    return {one: _decoded(path, node) for one, path, node in zip(ids, paths, nodes, strict=True)}


def _decoded(path: str, node: tuple[bytes, Stat] | None) -> DelegationToken | None:
    if node is None:
        return None
    try:
        token = DelegationToken.decode(node[0])
        for each in (token.owner, token.requester, *token.renewers):
            Principal.parse(each)
        return token
    except (ZnodeFormatError, ValueError) as error:
        log.error("the delegation token at %s cannot be read, and lets nobody in: %s", path, error)
        return None


def _named_in(notes: Iterable[bytes]) -> Iterable[str]:
    """The ids of tokens that notes name."""
    for data in notes:
        try:
            token_id = TokenChange.decode(data).token_id
            check_path(DelegationToken.path(token_id))
            yield token_id
        except (ZnodeFormatError, ValueError) as error:
            log.error("a change note of delegation tokens is skipped: %r", error)
