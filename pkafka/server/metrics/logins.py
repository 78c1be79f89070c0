"""How many logins of clients succeeded and failed: the counters of one listener in one worker, by Kafka's names."""

from collections.abc import Mapping
from typing import Final

SUCCEEDED: Final = "successful-authentication-total"
FAILED: Final = "failed-authentication-total"
RENEWED: Final = "successful-reauthentication-total"
NOT_RENEWED: Final = "failed-reauthentication-total"
EXPIRED: Final = "expired-connections-killed-count"

LOGIN_COUNTERS: Final[Mapping[str, str]] = {
    SUCCEEDED: "Logins that succeeded.",
    FAILED: "Logins that failed.",
    RENEWED: "Sessions that were renewed.",
    NOT_RENEWED: "Renewals of sessions that failed.",
    EXPIRED: "Connections that were closed because their sessions had ended.",
}
"""Each counter, and what it counts."""


def no_logins() -> dict[str, int]:
    """The counters at the start of a process."""
    return dict.fromkeys(LOGIN_COUNTERS, 0)
