"""The SCRAM credentials of all users, as the control process tells them to a worker."""

from pkafka.net.scram import ScramMechanism
from pkafka.security.sasl.scram import ScramUser
from pkafka.server.ipc import words
from pkafka.server.ipc.peer import Handler, Peer
from pkafka.server.ipc.words import StoredCredential, UserCredentials


class Credentials:
    """Holds the last that was said; a worker whose control process is gone goes on with it."""

    def __init__(self) -> None:
        self._users: dict[str, dict[int, ScramUser]] = {}
        """By name, then by the number of the mechanism."""
        self.operations: dict[str, Handler] = {
            words.CREDENTIALS: self._some,
            words.EVERY_CREDENTIAL: self._every,
        }

    def find(self, mechanism: ScramMechanism, name: str) -> ScramUser | None:
        """What is known of a user's password; None when the user has none for this mechanism."""
        return self._users.get(name, {}).get(mechanism)

    def _some(self, _peer: Peer, users: UserCredentials, _blob: memoryview, _fds: list[int]) -> None:
        """The credentials of these users are these now."""
        self._users.update(_read(users))
        for name in [name for name, rows in users.items() if not rows]:
            del self._users[name]

    def _every(self, _peer: Peer, users: UserCredentials, _blob: memoryview, _fds: list[int]) -> None:
        """These users have credentials, and no other has any."""
        self._users = _read(users)


def _read(users: UserCredentials) -> dict[str, dict[int, ScramUser]]:
    return {name: dict(_user(name, StoredCredential(*row)) for row in rows) for name, rows in users.items()}


def _user(name: str, row: StoredCredential) -> tuple[int, ScramUser]:
    return row.mechanism, ScramUser(row.salt, row.stored_key, row.server_key, row.iterations, name)
