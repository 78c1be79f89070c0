"""What a worker remembers of a client's connection between its requests."""

from pkafka.model import BrokerId


class ConnectionState:
    """Holds what a worker remembers of a client's connection.

    Attributes:
        moves: how often the connection has moved to another worker.
        foreign_streak: requests since the last move that another worker owns all partitions of.
        follows: a broker fetches through it, for its replicas.
        has_session: an incremental fetch may follow. Its session stays behind when the connection moves.
        is_settled: it has moved to the coordinator of its transactional id, and stays there.
        software: name and version that the client gave itself (KIP-511); None when it did not.
        told_dead: brokers of which its client was told that they are dead, and when by the event loop's clock; see the
            Metadata handler.
        number: counts the connections of this process, and is part of their names in the request log.
    """

    __slots__ = (
        "follows",
        "foreign_streak",
        "has_session",
        "is_settled",
        "moves",
        "number",
        "software",
        "told_dead",
    )

    def __init__(
        self,
        moves: int = 0,
        *,
        number: int = 0,
        software: tuple[str, str] | None = None,
        is_settled: bool = False,
    ) -> None:
        self.moves = moves
        self.number = number
        self.software = software
        self.told_dead: dict[BrokerId, float] = {}
        self.foreign_streak = 0
        self.follows = False
        self.has_session = False
        self.is_settled = is_settled
