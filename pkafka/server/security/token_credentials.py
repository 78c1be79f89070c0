"""The delegation tokens as a worker knows them: the control process tells which there are, SCRAM asks for keys."""

import hashlib

from pkafka.net.scram import ITERATIONS_DEFAULT, ScramMechanism, keys_of, salted_password
from pkafka.security.principal import Principal
from pkafka.security.sasl.scram import ScramUser
from pkafka.server.ipc import words
from pkafka.server.ipc.peer import Handler, Payload, Peer
from pkafka.server.ipc.words import TokenRow
from pkafka.server.security.delegation_tokens import password_of

_SALT_BYTES = 16


class TokenCredentials:
    """Holds the last that was said; a worker whose control process is gone goes on with it.

    Args:
        secret: of which the tokens' passwords are made; None where there are no tokens.
    """

    def __init__(self, secret: bytes | None) -> None:
        self._secret = secret
        self._tokens: dict[str, TokenRow] = {}
        self._keys: dict[tuple[str, int], ScramUser] = {}
        """What logins of the tokens needed so far, by the number of the mechanism too: it costs milliseconds."""
        self.operations: dict[str, Handler] = {words.TOKENS: self._some, words.EVERY_TOKEN: self._every}

    def find(self, mechanism: ScramMechanism, token_id: str, now_ms: int) -> ScramUser | None:
        """What a login by a token needs; None when there is no such token, or it has expired."""
        token = self._tokens.get(token_id)
        if token is None or token.expires_ms < now_ms or self._secret is None:
            return None
        key = token_id, int(mechanism)
        found = self._keys.get(key)
        if found is None:
            found = self._keys[key] = _user(self._secret, mechanism, token)
        return found._replace(expires_ms=token.expires_ms)

    def _some(self, _peer: Peer, rows: Payload, _blob: memoryview, _fds: list[int]) -> None:
        """These tokens are so now, or are gone."""
        for token_id, row in rows:
            if row is not None:
                self._tokens[token_id] = TokenRow(*row)
            else:
                self._tokens.pop(token_id, None)
                for mechanism in ScramMechanism:
                    self._keys.pop((token_id, int(mechanism)), None)

    def _every(self, _peer: Peer, rows: Payload, _blob: memoryview, _fds: list[int]) -> None:
        """There are these tokens, and no others."""
        self._tokens = {token_id: TokenRow(*row) for token_id, row in rows}
        self._keys.clear()


def _user(secret: bytes, mechanism: ScramMechanism, token: TokenRow) -> ScramUser:
    password = password_of(secret, token.token_id)
    # The same salt in every process: a client keeps what it has made of the last one. The password is no human's, so
    # the salt has nothing to protect.
    salt = hashlib.sha256(token.token_id.encode()).digest()[:_SALT_BYTES]
    salted = salted_password(mechanism, password, salt, ITERATIONS_DEFAULT)
    keys = keys_of(mechanism, salted)
    owner = Principal.parse(token.owner).name
    return ScramUser(salt, keys.stored_key, keys.server_key, ITERATIONS_DEFAULT, owner, token.expires_ms)
