"""The rules as they are stored: loaded from the coordination store, followed by their change notes, written.

A resource with rules is a node: /kafka-acl/TYPE/NAME, or /kafka-acl-extended/prefixed/TYPE/NAME for a prefix. A
change of it is written in one step with a note in /kafka-acl-changes, or /kafka-acl-extended-changes, which every
broker watches. A resource without rules has no node. Any broker that reads a note after 15 minutes removes it. All as
in Kafka, so that both kinds of broker can share a cluster; only that Kafka writes node and note in two steps.

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
    ACL_CHANGES,
    ACL_EXTENDED,
    ACL_EXTENDED_CHANGES,
    ACL_LITERAL,
    ACL_PERSISTENT_PATHS,
    AclChange,
    AclEntry,
    ResourceAcls,
)
from pkafka.security.acl import Entry, Operation, Pattern, PatternType, Permission, ResourceType

log = logging.getLogger(__name__)

_NOTE_PREFIX: Final = "acl_changes_"
_ROOTS: Final = {PatternType.LITERAL: ACL_LITERAL, PatternType.PREFIXED: f"{ACL_EXTENDED}/prefixed"}
_NOTES: Final = (ACL_CHANGES, ACL_EXTENDED_CHANGES)

Rules = Mapping[Pattern, tuple[Entry, ...]]
"""The entries of patterns; none for a pattern that has lost its rules."""
Edit = Callable[[tuple[Entry, ...]], Iterable[Entry]]
"""Gives the new entries of a pattern for the stored ones; may run again after a conflict."""


def _by_name(kind: type[ResourceType] | type[Operation] | type[Permission]) -> dict[str, int]:
    return {name: int(one) for one in kind for name in (one.title, one.name)}


_TYPES: Final = _by_name(ResourceType)
_OPERATIONS: Final = _by_name(Operation)
_PERMISSIONS: Final = _by_name(Permission)


class AclStore:
    """Reads, follows and writes the rules of a cluster.

    Args:
        clock: for the age of change notes.
        on_change: told of the patterns that notes name, with the entries that they have now.
        post: puts a call into the queue of the store's thread; called from the store's internal thread.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        on_change: Callable[[Rules], None],
        post: Callable[[Callable[[], None]], None],
    ) -> None:
        self._on_change = on_change
        self._notes = FollowedNotes("ACLs", _NOTES, _NOTE_PREFIX, clock, read=self._read_changed, post=post)

    def start(self, store: Store) -> Rules:
        """Follow the changes of the rules from now on, and read what there is.

        Raises:
            StoreError: the store failed.
        """
        self._notes.begin(store, ACL_PERSISTENT_PATHS)
        rules: dict[Pattern, tuple[Entry, ...]] = {}
        for kind, root in _ROOTS.items():
            for type_name in store.children(root):
                rules.update(_stored_of(store, kind, root, type_name))
        self._notes.purge()
        return rules

    def stop(self) -> None:
        """Stop following."""
        self._notes.stop()

    def change(self, pattern: Pattern, edit: Edit) -> Rules:
        """Try once to change the entries of a pattern, and leave a note; no other change is lost.

        Returns:
            The entries that the pattern has now.

        Raises:
            BadVersionError, NodeExistsError, NoNodeError: another broker was faster; try again.
            StoreError: the store failed; after a lost connection the change may still be made.
            ValueError: the name cannot be the name of a node.
        """
        store, path = self._notes.store(), _path(pattern)
        node = store.get_many([path])[0]
        old = _decoded(path, node)
        new = tuple(dict.fromkeys(edit(old)))
        if set(new) != set(old):
            note = _note_of(pattern)
            created = CreateOp(note.create_path(), note.encode(), sequential=True)
            store.multi([_write(path, node, new), created])
        return {pattern: new}

    def process_notes(self) -> None:
        """Read the patterns afresh whose notes came since the last call, then remove the notes that are old."""
        self._notes.process()

    def _read_changed(self, store: Store, notes: Sequence[bytes]) -> None:
        changed = _read(store, list(dict.fromkeys(_named_in(notes))))
        if changed:
            self._on_change(changed)


def _write(path: str, node: tuple[bytes, Stat] | None, entries: tuple[Entry, ...]) -> Op:
    """What brings a node to new entries, provided that it is still as it was read."""
    if not entries:
        assert node is not None
        return DeleteOp(path, version=node[1].version)
    data = ResourceAcls(
        tuple(AclEntry(one.principal, one.permission.title, one.host, one.operation.title) for one in entries)
    ).encode()
    return CreateOp(path, data) if node is None else SetOp(path, data, version=node[1].version)


def _stored_of(store: Store, kind: PatternType, root: str, type_name: str) -> Rules:
    number = _TYPES.get(type_name)
    if number is None:
        log.warning("Ignoring unknown ResourceType: %s", type_name)
        return {}
    names = store.children(f"{root}/{type_name}")
    return {
        pattern: entries
        for pattern, entries in _read(
            store, [Pattern(ResourceType(number), name, kind) for name in names]
        ).items()
        if entries
    }


def _read(store: Store, patterns: list[Pattern]) -> dict[Pattern, tuple[Entry, ...]]:
    paths = [_path(one) for one in patterns]
    nodes = store.get_many(paths)
    return {pattern: _decoded(path, node) for pattern, path, node in zip(patterns, paths, nodes, strict=True)}


def _decoded(path: str, node: tuple[bytes, Stat] | None) -> tuple[Entry, ...]:
    if node is None:
        return ()
    try:
        return tuple(_entry(one) for one in ResourceAcls.decode(node[0]).entries)
    except (ZnodeFormatError, KeyError) as error:
        # As in Kafka, what cannot be read is no rule; it lets no client in unless allow.everyone.if.no.acl.found is on.
        log.error("the ACLs of %s cannot be read, and do not count: %r", path, error)
        return ()


def _entry(stored: AclEntry) -> Entry:
    return Entry(
        stored.principal,
        stored.host,
        Operation(_OPERATIONS[stored.operation]),
        Permission(_PERMISSIONS[stored.permission_type]),
    )


def _named_in(notes: Iterable[bytes]) -> Iterable[Pattern]:
    """The patterns that notes name."""
    for data in notes:
        try:
            change = AclChange.decode(data)
            kind = PatternType.PREFIXED if change.prefixed else PatternType.LITERAL
            pattern = Pattern(ResourceType(_TYPES[change.resource_type]), change.name, kind)
            check_path(_path(pattern))
            yield pattern
        except (ZnodeFormatError, KeyError, ValueError) as error:
            log.error("a change note of ACLs is skipped: %r", error)


def _path(pattern: Pattern) -> str:
    return ResourceAcls.path(pattern.type.title, pattern.name, prefixed=pattern.kind is PatternType.PREFIXED)


def _note_of(pattern: Pattern) -> AclChange:
    return AclChange(pattern.type.title, pattern.name, pattern.kind is PatternType.PREFIXED)
