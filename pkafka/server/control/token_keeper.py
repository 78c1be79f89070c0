"""The delegation tokens of the cluster in the control process: read when it boots, followed, changed, and told to the
workers; where this broker is the active controller, those that have expired are removed.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial

from pkafka.clock import Clock
from pkafka.coordination.store import Store, StoreError
from pkafka.coordination.znodes_security import DelegationToken
from pkafka.errors import ApiError, ErrorCode
from pkafka.server.config.delegation_tokens import TokenSettings
from pkafka.server.control.acl_keeper import RunOnStore
from pkafka.server.control.shared_changes import Telling, until_written
from pkafka.server.control.siblings import Siblings
from pkafka.server.ipc import words
from pkafka.server.ipc.peer import Peer
from pkafka.server.ipc.words import TokenRow
from pkafka.server.security.delegation_tokens import has_expired, hmac_of
from pkafka.server.security.token_store import Edit, Tokens, TokenStore

log = logging.getLogger(__name__)


class TokenKeeper:
    """Keeps the delegation tokens of a broker that has a secret for them. Belongs to the event loop.

    Args:
        settings: how long tokens last.
        siblings: the workers.
        clock: for the ends of tokens, and the age of change notes.
        run_on_store: for what uses the store.
        post: puts a call into the queue of the store's thread.
    """

    def __init__(
        self,
        settings: TokenSettings,
        siblings: Siblings,
        *,
        clock: Clock,
        run_on_store: RunOnStore,
        post: Callable[[Callable[[], None]], None],
    ) -> None:
        self.settings = settings
        self._siblings = siblings
        self._clock = clock
        self._run_on_store = run_on_store
        self._loop = asyncio.get_running_loop()
        self._store = TokenStore(clock=clock, on_change=self._on_change, post=post)
        self._tokens: dict[str, DelegationToken] = {}
        self._ids: dict[bytes, str] = {}
        """By the tokens' HMACs."""
        self._telling = Telling("delegation tokens")
        self._check_now = asyncio.Event()

    @property
    def tokens(self) -> Mapping[str, DelegationToken]:
        """The tokens as this broker knows them, by id."""
        return self._tokens

    def id_of(self, hmac: bytes) -> str | None:
        """The id of the token with this HMAC."""
        return self._ids.get(hmac)

    def hmac_of(self, token_id: str) -> bytes:
        """The HMAC of a token."""
        return hmac_of(self.settings.secret, token_id)

    async def start(self, store: Store) -> None:
        """Read the tokens, and follow them.

        Raises:
            StoreError: the store failed.
        """
        self._tokens = await asyncio.to_thread(self._store.start, store)
        self._ids = {self.hmac_of(token_id): token_id for token_id in self._tokens}

    async def tell_all(self, peer: Peer) -> None:
        """Tell a worker that has just come all tokens."""
        await peer.call(words.EVERY_TOKEN, _rows(self._tokens))

    async def change(self, token_id: str, edit: Edit) -> DelegationToken | None:
        """Change a token; when this returns, no worker of this broker knows the old one.

        Args:
            edit: gives the new state for the stored one; may run again after a conflict.

        Raises:
            ApiError: by ``edit``, or the store cannot be written.
        """
        try:
            token = await until_written(lambda: self._run_on_store(self._store.change, token_id, edit))
        except StoreError as error:
            log.warning("The delegation token %s could not be changed: %s", token_id, error)
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR) from error
        await asyncio.sleep(0)  # behind what the write told
        await self._telling.settled()
        return token

    # -- tokens that expire --

    def check_now(self) -> None:
        """Look at once for tokens that have expired: this broker may be the active controller now."""
        self._check_now.set()

    async def expire_for_ever(self, is_active: Callable[[], bool]) -> None:
        """Remove tokens that have expired, again and again.

        Args:
            is_active: whether this broker is the active controller.
        """
        while True:
            self._check_now.clear()
            if is_active():
                await self._expire()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._check_now.wait(), self.settings.check_ms / 1000)

    async def _expire(self) -> None:
        now_ms = self._clock.now_ms()
        for token_id in [one.token_id for one in self._tokens.values() if has_expired(one, now_ms)]:
            try:
                left = await self.change(token_id, partial(_unless_expired, now_ms))
            except ApiError:
                return  # the log knows why; the next check tries again
            if left is None:
                log.info("The delegation token %s has expired", token_id)

    # -- what the store says --

    def _on_change(self, tokens: Tokens) -> None:
        """Called on the store's thread, in the order in which the tokens were read or written."""
        self._loop.call_soon_threadsafe(self._changed, tokens)

    def _changed(self, tokens: Tokens) -> None:
        new = {one: token for one, token in tokens.items() if self._tokens.get(one) != token}
        if not new:
            return
        for token_id, token in new.items():
            if token is None:
                del self._tokens[token_id]
                del self._ids[self.hmac_of(token_id)]
            else:
                self._tokens[token_id] = token
                self._ids[self.hmac_of(token_id)] = token_id
        self._telling.add(self._siblings.ask_workers(words.TOKENS, _rows(new)))


def _unless_expired(now_ms: int, token: DelegationToken | None) -> DelegationToken | None:
    """The token, unless it has expired; it may have been renewed meanwhile."""
    return None if token is None or has_expired(token, now_ms) else token


def _rows(tokens: Tokens) -> list[tuple[str, TokenRow | None]]:
    return [
        (
            one,
            None
            if token is None
            else TokenRow(one, token.owner, min(token.expires_ms, token.expires_latest_ms)),
        )
        for one, token in tokens.items()
    ]
