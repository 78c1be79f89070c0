"""What pk-acls --list shows."""

from collections.abc import Iterable, Iterator
from typing import Protocol

from pkafka.cli.acls.flags import Flags
from pkafka.cli.acls.rules import principals, resources
from pkafka.cli.acls.text import block, by_pattern, pattern_text, rows
from pkafka.cli.kit.output import View
from pkafka.security.acl import ANY_ACL, Acl, AclFilter, PatternFilter


class Source(Protocol):
    """Where rules are read."""

    def describe_acls(self, wanted: AclFilter, /) -> list[Acl]:
        """The rules that a filter chooses."""
        ...


def listed(source: Source, flags: Flags) -> View:
    """The rules of the resources that the flags name, or of all; of the principals alone that they name."""
    found = chosen(source, resources(flags, required=False))
    asked = [str(one) for one in principals(flags.principal)]
    shown = [acl for acl in found if not asked or acl.entry.principal in asked]
    return View("acls", _lines(found, asked), rows(shown))


def chosen(source: Source, filters: Iterable[PatternFilter]) -> list[Acl]:
    """The rules that filters of resources choose; all without one."""
    wanted = [AclFilter(one) for one in filters] or [ANY_ACL]
    return list(dict.fromkeys(acl for one in wanted for acl in source.describe_acls(one)))


def _lines(acls: Iterable[Acl], asked: list[str]) -> Iterator[str]:
    if not asked:
        yield from blocks("Current ACLs", acls)
        return
    every = list(acls)
    for principal in asked:
        yield f"ACLs for principal `{principal}`"
        yield from blocks("Current ACLs", [acl for acl in every if acl.entry.principal == principal])


def blocks(what: str, acls: Iterable[Acl]) -> Iterator[str]:
    """The lines of Kafka's tool for rules, resource by resource."""
    for pattern, entries in by_pattern(acls).items():
        yield from block(f"{what} for resource `{pattern_text(pattern)}`:", entries)
