"""The steps of a connection's life, and which stage a failure in each of them is."""

from enum import Enum
from typing import Final

from pkafka.clients.errors import Stage


class ConnectionState(Enum):
    """Where a connection is in its life."""

    CONNECTING = "connecting"
    ENCRYPTING = "encrypting"
    NEGOTIATING = "negotiating"
    AUTHENTICATING = "authenticating"
    READY = "ready"
    CLOSED = "closed"


STAGES: Final = {
    ConnectionState.CONNECTING: Stage.CONNECT,
    ConnectionState.ENCRYPTING: Stage.TLS,
    ConnectionState.NEGOTIATING: Stage.HANDSHAKE,
    ConnectionState.AUTHENTICATING: Stage.AUTHENTICATE,
}
"""The states before READY; each lasts for a time at the most, and is what a failure is told by."""
TALKING: Final = (ConnectionState.READY, ConnectionState.AUTHENTICATING, ConnectionState.NEGOTIATING)
"""The states in which requests and answers travel; a tuple, since an enum is found in a set by code in Python."""
