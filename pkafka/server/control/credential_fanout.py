"""The SCRAM credentials of users on their way from the control process to the workers, which let clients in by them."""

import logging
from collections.abc import Mapping
from typing import Final

from pkafka.coordination.znode_json import ZnodeFormatError
from pkafka.coordination.znodes import DEFAULT_ENTITY, desanitize
from pkafka.coordination.znodes_security import ScramCredential
from pkafka.net.scram import KNOWN
from pkafka.server.config.repository import USERS
from pkafka.server.control.siblings import Siblings
from pkafka.server.control.this_broker import ThisBroker
from pkafka.server.ipc import words
from pkafka.server.ipc.peer import Peer
from pkafka.server.ipc.words import StoredCredential

log = logging.getLogger(__name__)

_PAIR: Final = "/clients/"


class CredentialFanout:
    """Tells workers the credentials that are stored among the settings of users.

    Args:
        broker: this broker, which has these settings.
        siblings: the workers.
    """

    def __init__(self, broker: ThisBroker, siblings: Siblings) -> None:
        self._broker = broker
        self._siblings = siblings

    async def tell_all(self, peer: Peer) -> None:
        """Tell a worker that has just come all credentials."""
        users = self._broker.configs.entities(USERS)
        every = {desanitize(name): _rows(name, configs) for name, configs in users.items() if _is_user(name)}
        await peer.call(words.EVERY_CREDENTIAL, {name: rows for name, rows in every.items() if rows})

    def changed(self, entity_type: str, entity_name: str, configs: Mapping[str, str]) -> None:
        """Pass on that a user has these settings now."""
        if entity_type == USERS and _is_user(entity_name):
            rows = _rows(entity_name, configs)
            self._siblings.tell_workers(words.CREDENTIALS, {desanitize(entity_name): rows})


def _is_user(name: str) -> bool:
    """Whether an entity is one user: not the default of all, nor a user together with a client."""
    return name != DEFAULT_ENTITY and _PAIR not in name


def _rows(name: str, configs: Mapping[str, str]) -> list[StoredCredential]:
    rows = []
    for mechanism in KNOWN:
        text = configs.get(mechanism.mechanism_name)
        if text is None:
            continue
        try:
            found = ScramCredential.decode(text)
        except ZnodeFormatError:
            # Not with the error's text, which may show a part of the credential.
            log.error(
                "The %s credential of user %s cannot be read: set it anew by pk-configs --entity-type users",
                mechanism.mechanism_name,
                name,
            )
            continue
        rows.append(
            StoredCredential(mechanism, found.salt, found.stored_key, found.server_key, found.iterations)
        )
    return rows
