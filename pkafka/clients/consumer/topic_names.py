"""Names of topics that a consumer can subscribe to."""

from collections.abc import Iterable
from typing import Final

from pkafka.clients.errors import IllegalArgumentError

_NAME_BYTES_MAX: Final = 32_767


def checked_names(topics: Iterable[str]) -> list[str]:
    """The names, when the members of a group can be told each of them.

    Raises:
        IllegalArgumentError: this is one name in place of several, or one of them is empty, too long, or not text.
    """
    if isinstance(topics, str):
        raise IllegalArgumentError("topics must be a collection of names, not one name")
    names = list(topics)
    if any(not each or not each.strip() for each in names):
        raise IllegalArgumentError("Topic collection to subscribe to cannot contain null or empty topic")
    for each in names:
        _check_name(each)
    return names


def _check_name(topic: str) -> None:
    """See that a name can be told to the members of a group; whether a topic may have it is the broker's to say.

    Raises:
        IllegalArgumentError: it is not text, or too long.
    """
    try:
        size = len(topic.encode())
    except UnicodeEncodeError:
        size = _NAME_BYTES_MAX + 1
    if size > _NAME_BYTES_MAX:
        raise IllegalArgumentError(f"{topic[:80]!r} cannot be represented in a request")
