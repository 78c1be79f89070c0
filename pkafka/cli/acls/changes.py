"""pk-acls --add and --remove."""

import sys
from collections.abc import Iterable, Sequence
from typing import Protocol

from pkafka.cli.acls.flags import Flags
from pkafka.cli.acls.listing import Source, blocks
from pkafka.cli.acls.rules import addable, wanted
from pkafka.cli.acls.text import entry_text, pattern_text, rows
from pkafka.cli.kit.options import Common
from pkafka.cli.kit.output import OutputFormat, View, line
from pkafka.clients.admin.outcomes import Outcome, raise_first
from pkafka.errors import ApiError
from pkafka.security.acl import Acl, AclFilter, Entry, EntryFilter, Pattern, PatternFilter


class Changeable(Source, Protocol):
    """Where rules are read and changed."""

    def create_acls(self, acls: Sequence[Acl], /) -> dict[Acl, Outcome[None]]:
        """Add rules."""
        ...

    def delete_acls(
        self, filters: Iterable[AclFilter], /
    ) -> dict[AclFilter, Outcome[dict[Acl, Outcome[None]]]]:
        """Remove the rules that filters choose."""
        ...


def add(source: Changeable, common: Common, flags: Flags) -> None:
    """Add what the flags say.

    Raises:
        ApiError: the broker refuses.
    """
    rules = addable(flags)
    acls = [
        Acl(Pattern(resource.type, resource.name or "", resource.kind), entry)
        for resource, entries in rules.items()
        for entry in entries
    ]
    if flags.dry_run:
        _show(common, list(blocks("Would add ACLs", acls)), acls, dry_run=True)
        return
    if _is_text(common):
        for each in blocks("Adding ACLs", acls):
            line(each)
    raise_first(source.create_acls(acls))
    if not _is_text(common):
        _show(common, [], acls, dry_run=False)


def remove(source: Changeable, common: Common, flags: Flags) -> None:
    """Remove what the flags say, after a question for each resource.

    Raises:
        ApiError: the broker refuses.
    """
    rules = wanted(flags)
    filters = {resource: _filters(resource, entries) for resource, entries in rules.items()}
    if flags.dry_run:
        gone = [acl for some in filters.values() for one in some for acl in source.describe_acls(one)]
        _show(common, list(blocks("Would remove ACLs", gone)), gone, dry_run=True)
        return
    removed: list[Acl] = []
    for resource, some in filters.items():
        if flags.force or _agrees(_question(resource, rules[resource])):
            removed += _removed(source.delete_acls(some).values())
    if not _is_text(common):
        _show(common, [], removed, dry_run=False)


def _filters(resource: PatternFilter, entries: Iterable[Entry]) -> list[AclFilter]:
    return [AclFilter(resource, EntryFilter(*entry)) for entry in entries] or [AclFilter(resource)]


def _removed(outcomes: Iterable[Outcome[dict[Acl, Outcome[None]]]]) -> list[Acl]:
    found: list[Acl] = []
    for outcome in outcomes:
        if isinstance(outcome, ApiError):
            raise outcome
        raise_first(outcome)
        found += outcome
    return found


def _question(resource: PatternFilter, entries: Sequence[Entry]) -> str:
    named = f"resource filter `{pattern_text(resource)}`? (y/n)"
    if not entries:
        return f"Are you sure you want to delete all ACLs for {named}"
    shown = "\n".join(f"\t{entry_text(entry)}" for entry in entries)
    return f"Are you sure you want to remove ACLs: \n {shown} \n from {named}"


def _agrees(question: str) -> bool:
    """Ask as Kafka's tool does, in a pipe too: it prints the question, and reads a line. No line means no."""
    for each in question.split("\n"):
        line(each)
    return sys.stdin.readline().rstrip("\r\n").lower() == "y"


def _is_text(common: Common) -> bool:
    return common.output in (None, OutputFormat.TEXT, OutputFormat.TABLE)


def _show(common: Common, lines: Sequence[str], acls: Iterable[Acl], *, dry_run: bool) -> None:
    common.show(View("acls", lines, rows(acls), {"dry_run": dry_run}))
