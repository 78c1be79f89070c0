"""The token by which one process of this broker logs in at other brokers by OAUTHBEARER.

All connections of the process share it. It is fetched in a thread, once for all who wait, so a token server that is
slow or away costs the event loop nothing.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Protocol

from pkafka.clock import Clock, SystemClock
from pkafka.errors import PkafkaError
from pkafka.net.channel import ChannelError
from pkafka.security.bearer_tokens import NoTokenError, TokenSource, fetcher
from pkafka.security.token_settings import Token
from pkafka.server.config.login_tokens import OwnTokens

log = logging.getLogger(__name__)

_LEFT_MIN_MS: Final = 1_000
"""With less of it left, a token is not used any more: the session would be over before the first request."""


class Timer(Protocol):
    """Something that is done later, unless it is cancelled."""

    def cancel(self) -> None: ...


def _on_the_loop(after_s: float, action: Callable[[], None]) -> Timer:
    return asyncio.get_running_loop().call_later(after_s, action)


class BrokerTokens:
    """Has a valid token where one can be had.

    Args:
        settings: how.
        clock: for the ends of tokens.
        later: does something after seconds.
    """

    def __init__(
        self,
        settings: OwnTokens,
        clock: Clock,
        later: Callable[[float, Callable[[], None]], Timer] = _on_the_loop,
    ) -> None:
        self._source = TokenSource(fetcher(settings.tokens, clock), settings.tokens.refreshing, clock)
        self.settings: Final = settings
        self._clock = clock
        self._later = later
        self._next_look: Timer | None = None
        self._asking: asyncio.Future[Token] | None = None
        self._failure: PkafkaError | None = None
        self._is_used = False
        """Whether a connection has asked for a token since the last one came."""
        self._pause_ms = settings.retry_backoff_ms
        self._again_ms = 0

    async def token(self) -> str:
        """A token that is valid now, and for a moment.

        Raises:
            ChannelError: there is none; whoever gives them is not asked again before a pause.
        """
        self._is_used = True
        held = self._source.held()
        if held is not None and held.expires_ms - self._clock.now_ms() > _LEFT_MIN_MS:
            self._renew_when_due()
            return held.text
        if self._failure is not None and self._clock.now_ms() < self._again_ms:
            raise _no_login(self._failure)
        try:
            token = await asyncio.shield(self._ask())
            self._is_used = True
            return token.text
        except PkafkaError as error:
            raise _no_login(error) from None

    def _renew_when_due(self) -> None:
        if self._clock.now_ms() >= self._due_ms():
            self._ask()

    def _due_ms(self) -> int:
        return max(self._source.due_ms, self._again_ms)

    def _look(self) -> None:
        """Renew a token that connections use; the one of settings that have changed ends, and nobody asks for more."""
        if self._is_used:
            self._renew_when_due()
            if self._asking is None:
                self._look_later()

    def _look_later(self) -> None:
        if self._next_look is not None:
            self._next_look.cancel()
        after_s = max(self._due_ms() - self._clock.now_ms(), 1) / 1_000
        self._next_look = self._later(after_s, self._look)

    def _ask(self) -> "asyncio.Future[Token]":
        """The question for another token, one at a time."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.get_running_loop().create_task(asyncio.to_thread(self._source.renew))
            self._asking.add_done_callback(self._asked)
        return self._asking

    def _asked(self, answered: "asyncio.Future[Token]") -> None:
        self._asking = None
        error = None if answered.cancelled() else answered.exception()
        if error is None:
            self._failure, self._pause_ms = None, self.settings.retry_backoff_ms
            self._again_ms, self._is_used = 0, False
        elif isinstance(error, PkafkaError):
            log.warning("The token by which this broker logs in at others could not be renewed: %s", error)
            self._failure = error
            self._again_ms = self._clock.now_ms() + self._pause_ms
            self._pause_ms = min(self._pause_ms * 2, self.settings.retry_backoff_max_ms)
        else:
            return  # who waits hears of it
        # Sessions end with their tokens, so the next one has to be there before connections ask for it.
        if self._source.held() is not None:
            self._look_later()


_known: list[BrokerTokens] = []
_KNOWN_MAX: Final = 4


def shared_tokens(settings: OwnTokens) -> BrokerTokens:
    """What all connections of this process share; another object after a change of the settings."""
    for tokens in _known:
        if tokens.settings == settings:
            return tokens
    _known.append(BrokerTokens(settings, SystemClock()))
    del _known[:-_KNOWN_MAX]
    return _known[-1]


def _no_login(error: PkafkaError) -> ChannelError:
    hint = f" ({error.hint})" if isinstance(error, NoTokenError) and error.hint else ""
    return ChannelError(f"there is no token by which this broker could log in at others: {error}{hint}")
