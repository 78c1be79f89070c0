"""The keys by which a worker trusts signed tokens, as the control process tells them."""

import logging
from collections.abc import Callable, Mapping, Sequence

from pkafka.security.signed_tokens import VerificationKey, read_keys
from pkafka.server.ipc import words
from pkafka.server.ipc.peer import Handler, Peer

log = logging.getLogger(__name__)


class KeySets:
    """Holds the last key set of each address; a worker whose control process is gone goes on with them.

    Args:
        ask_again: called with the address of a key set, and the name of a key that it lacks.
    """

    def __init__(self, ask_again: Callable[[str, str], None]) -> None:
        self.ask_again = ask_again
        self._keys: dict[str, Sequence[VerificationKey]] = {}
        self.operations: dict[str, Handler] = {words.KEY_SETS: self._take}

    def of(self, url: str) -> Sequence[VerificationKey]:
        """The keys that an address gave last; none before it was asked."""
        return self._keys.get(url, ())

    def _take(self, _peer: Peer, documents: Mapping[str, str], _blob: memoryview, _fds: list[int]) -> None:
        """These are the key sets now."""
        for url, document in documents.items():
            try:
                self._keys[url] = read_keys(document)
            except ValueError as error:
                log.error("The key set of %s cannot be used: %s", url, error)
