"""Rules on their way from the control process to a worker."""

from collections.abc import Iterable, Mapping

from pkafka.security.acl import Entry, Operation, Pattern, PatternType, Permission, ResourceType
from pkafka.server.ipc import words
from pkafka.server.ipc.peer import Handler, Payload, Peer
from pkafka.server.ipc.words import AclRows
from pkafka.server.security.authorizer import AclAuthorizer, Authorizer


def rows_of(rules: Mapping[Pattern, Iterable[Entry]]) -> AclRows:
    """Rules as they travel."""
    return [(pattern, list(entries)) for pattern, entries in rules.items()]


def rules_in(rows: AclRows) -> dict[Pattern, tuple[Entry, ...]]:
    """Rules that have travelled."""
    return {_pattern(*values): tuple(_entry(*one) for one in entries) for values, entries in rows}


def _pattern(kind: int, name: str, match: int) -> Pattern:
    return Pattern(ResourceType(kind), name, PatternType(match))


def _entry(principal: str, host: str, operation: int, permission: int) -> Entry:
    return Entry(principal, host, Operation(operation), Permission(permission))


def operations(authorizer: Authorizer | None) -> dict[str, Handler]:
    """What the control process tells a worker that decides by rules."""
    if not isinstance(authorizer, AclAuthorizer):
        return {}

    def replace(_peer: Peer, rows: Payload, _blob: memoryview, _fds: list[int]) -> None:
        authorizer.replace(rules_in(rows))

    def change(_peer: Peer, rows: Payload, _blob: memoryview, _fds: list[int]) -> None:
        authorizer.change(rules_in(rows))

    return {words.ACLS: replace, words.ACLS_CHANGED: change}
