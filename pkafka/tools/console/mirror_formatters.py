"""MirrorMaker 2's own topics as text: what Kafka's formatters for them print."""

from collections.abc import Callable
from typing import Final

from pkafka.clients.serialization import SerializationError
from pkafka.connect.mirror.records import Checkpoint, Heartbeat, OffsetSync, RecordFormatError

Formatter = Callable[[bytes | None, bytes | None], bytes]

PACKAGE: Final = "org.apache.kafka.connect.mirror.formatters."


def formatter(name: str) -> Formatter | None:
    """The formatter of a class name of Kafka 3.9; None for a name that is none of them."""
    kind = _KINDS.get(name)
    if kind is None:
        return None

    def line(key: bytes | None, value: bytes | None) -> bytes:
        try:
            return f"{kind.of(key, value)}\n".encode()
        except RecordFormatError as error:
            raise SerializationError(str(error)) from error

    return line


_KINDS: Final[dict[str, type[Checkpoint | Heartbeat | OffsetSync]]] = {
    f"{PACKAGE}CheckpointFormatter": Checkpoint,
    f"{PACKAGE}HeartbeatFormatter": Heartbeat,
    f"{PACKAGE}OffsetSyncFormatter": OffsetSync,
}
