"""Which topics --topic means."""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pkafka.cli.kit.kafka_command import CommandError
from pkafka.cli.kit.topic_filter import topic_pattern
from pkafka.cli.topics.flags import Flags
from pkafka.model import INTERNAL_TOPICS

if TYPE_CHECKING:
    from pkafka.clients.admin import Admin


def existing(admin: "Admin", flags: Flags, *, required: bool) -> list[str]:
    """The names of the topics that ``--topic`` means, of those that exist.

    Raises:
        CommandError: there is none, and ``required`` is set.
    """
    known = [each.name for each in admin.list_topics()]
    names = matching(known, flags.topic, exclude_internal=flags.exclude_internal, exact=flags.exact)
    if not names and flags.topic and required:
        from pkafka.cli.kit.spelling import did_you_mean

        meant = did_you_mean(flags.topic, known)
        raise CommandError(f"Topic '{flags.topic}' does not exist as expected", hint=meant)
    return names


def matching(
    known: Iterable[str], pattern: str | None, *, exclude_internal: bool, exact: bool = False
) -> list[str]:
    """The sorted names that match a list of regular expressions, or with ``exact`` are equal to it."""
    wanted = re.compile(re.escape(pattern or "")) if exact else topic_pattern(pattern or ".*")
    return sorted(
        name
        for name in known
        if wanted.fullmatch(name) and not (exclude_internal and name in INTERNAL_TOPICS)
    )
