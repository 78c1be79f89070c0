"""What a worker remembers of a client's connection between its requests."""

from pkafka.model import BrokerId
from pkafka.net.connection import ServerConnection
from pkafka.security.principal import ANONYMOUS, Principal
from pkafka.server.security.authorizer import Authorizer
from pkafka.server.security.login import Session
from pkafka.server.security.rights import Rights


class ConnectionState:
    """Holds what a worker remembers of a client's connection.

    Attributes:
        moves: how often the connection has moved to another worker.
        foreign_streak: requests since the last move that another worker owns all partitions of.
        follows: a broker fetches through it, for its replicas.
        has_session: an incremental fetch may follow. Its session stays behind when the connection moves.
        is_settled: it has moved to the coordinator of its transactional id, and stays there.
        software: name and version that the client gave itself (KIP-511); None when it did not.
        principal: whom its client acts for, as its certificate or its login says.
        session: how its client logged in, and until when that counts; None where it did not.
        rights: of its client, as they were known last; None without an authorizer, and before anybody asked.
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
        "principal",
        "rights",
        "session",
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
        principal: Principal = ANONYMOUS,
        session: Session | None = None,
    ) -> None:
        self.moves = moves
        self.number = number
        self.software = software
        self.principal = principal
        self.session = session
        self.rights: Rights | None = None
        self.told_dead: dict[BrokerId, float] = {}
        self.foreign_streak = 0
        self.follows = False
        self.has_session = False
        self.is_settled = is_settled


def rights_at(authorizer: Authorizer, connection: ServerConnection) -> Rights:
    """What the client at the other end of a connection may do.

    Raises:
        ApiError: it is not known yet.
    """
    state = connection.state
    if not isinstance(state, ConnectionState):
        return authorizer.rights(ANONYMOUS, connection.peer_host)
    rights = state.rights
    if rights is None or not rights.holds or rights.principal is not state.principal:
        rights = state.rights = authorizer.rights(state.principal, connection.peer_host)
    return rights
