"""What a worker remembers of a client's connection between its requests."""


class ConnectionState:
    """See the module.

    Attributes:
        moves: how often the connection has moved to another worker.
        foreign_streak: requests since the last move that another worker owns all partitions of.
        has_session: an incremental fetch may follow. Its session stays behind when the connection moves.
    """

    __slots__ = ("foreign_streak", "has_session", "moves")

    def __init__(self, moves: int = 0) -> None:
        self.moves = moves
        self.foreign_streak = 0
        self.has_session = False
