"""Offsets of sources, as a process of tasks has them: the worker reads and writes their topic, and is asked."""

from collections.abc import Mapping
from typing import Any, Final

from pkafka.connect.hosts.channel import Channel
from pkafka.connect.hosts.messages import AllOffsets, GetOffset, Message, PutOffsets, RefreshOffsets
from pkafka.connect.storage.offset_store import OffsetStore

_PATIENCE_S: Final = 300.0
"""How long the worker may take; its own limits are shorter, and this process ends with it."""


class WorkerOffsets:
    """Asks the worker. Any thread may call it; see :class:`~pkafka.connect.storage.offset_store.OffsetStore`.

    Args:
        channel: to the worker.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def refresh(self) -> None:
        """Have the worker read what others have stored.

        Raises:
            ConnectError: it could not.
        """
        self._ask(RefreshOffsets())

    def get(self, key: bytes) -> bytes | None:
        """The value of a key as far as the worker knows; None: there is none."""
        found: bytes | None = self._ask(GetOffset(key))
        return found

    def entries(self) -> Mapping[bytes, bytes | None]:
        """All that the worker knows."""
        found: Mapping[bytes, bytes | None] = self._ask(AllOffsets())
        return found

    def put(self, entries: Mapping[bytes, bytes | None]) -> None:
        """Have values stored.

        Raises:
            ConnectError: they are not, or it is not known whether they are.
        """
        self._ask(PutOffsets(dict(entries)))

    def _ask(self, message: Message) -> Any:  # noqa: ANN401 - by the question
        return self._channel.ask(message).result(_PATIENCE_S)


def answer_of(store: OffsetStore, message: Message) -> object:
    """What the worker answers to a question about offsets.

    Raises:
        ConnectError: the store cannot do it.
        TypeError: it is no such question.
    """
    match message:
        case RefreshOffsets():
            store.refresh()
            return None
        case GetOffset(key):
            return store.get(key)
        case AllOffsets():
            return dict(store.entries())
        case PutOffsets(entries):
            store.put(entries)
            return None
        case _:
            raise TypeError(f"{type(message).__name__} is no question for a worker")
