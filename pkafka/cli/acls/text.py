"""Rules as kafka-acls.sh prints them, and as rows."""

from collections.abc import Iterable, Sequence

from pkafka.security.acl import Acl, Entry, Pattern, PatternFilter


def pattern_text(pattern: Pattern | PatternFilter) -> str:
    """A resource as Java writes it."""
    name = "<any>" if pattern.name is None else pattern.name
    return f"ResourcePattern(resourceType={pattern.type.name}, name={name}, patternType={pattern.kind.name})"


def entry_text(entry: Entry) -> str:
    """An entry as Java writes it."""
    return (
        f"(principal={entry.principal}, host={entry.host}, operation={entry.operation.name},"
        f" permissionType={entry.permission.name})"
    )


def block(heading: str, entries: Iterable[Entry]) -> list[str]:
    """The lines of Kafka's tool for one resource: its heading ends in a blank, and so does the last entry."""
    rows = "\n".join(f"\t{entry_text(entry)}" for entry in entries)
    return [*f"{heading} \n {rows} ".split("\n"), ""]


def by_pattern(acls: Iterable[Acl]) -> dict[Pattern, list[Entry]]:
    """The entries of each resource, in an order that does not depend on the broker."""
    found: dict[Pattern, list[Entry]] = {}
    for pattern, entry in sorted(set(acls)):
        found.setdefault(pattern, []).append(entry)
    return found


def rows(acls: Iterable[Acl]) -> Sequence[dict[str, object]]:
    """A row for each rule."""
    return [
        {
            "resource_type": pattern.type.name,
            "resource_name": pattern.name,
            "pattern_type": pattern.kind.name,
            "principal": entry.principal,
            "host": entry.host,
            "operation": entry.operation.name,
            "permission_type": entry.permission.name,
        }
        for pattern, entry in sorted(set(acls))
    ]
