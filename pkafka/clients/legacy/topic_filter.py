"""Topics by regular expression: what the old consumer's ``createMessageStreamsByFilter`` took."""

import re
from dataclasses import dataclass, field

from pkafka.coordination.znodes_consumers import BLACK_LIST, WHITE_LIST
from pkafka.errors import ConfigError
from pkafka.java.pattern import PatternError, compile_pattern
from pkafka.java.text import trim
from pkafka.model import INTERNAL_TOPICS


@dataclass(frozen=True)
class TopicFilter:
    """Which topics to read: a regular expression that must match the whole name, where a comma stands for "or"."""

    raw_regex: str
    regex: str = field(init=False)
    _compiled: re.Pattern[str] = field(init=False, repr=False, compare=False)
    pattern = ""

    def __post_init__(self) -> None:
        text = trim(self.raw_regex).replace(",", "|").replace(" ", "").strip("\"'")
        try:
            compiled = compile_pattern(text)
        except PatternError as error:
            raise ConfigError("topic filter", f"is an invalid regular expression: {error}", text) from error
        object.__setattr__(self, "regex", text)
        object.__setattr__(self, "_compiled", compiled)

    def allows(self, topic: str, *, exclude_internal: bool) -> bool:
        """Whether the topic is to be read; internal ones only where ``exclude_internal`` is false."""
        matches = self._compiled.fullmatch(topic) is not None
        return self._wants(matches) and not (exclude_internal and topic in INTERNAL_TOPICS)

    def _wants(self, matches: bool) -> bool:
        raise NotImplementedError


class Whitelist(TopicFilter):
    """The topics that match."""

    pattern = WHITE_LIST

    def _wants(self, matches: bool) -> bool:
        return matches


class Blacklist(TopicFilter):
    """The topics that do not match."""

    pattern = BLACK_LIST

    def _wants(self, matches: bool) -> bool:
        return not matches
