"""The key sets that sign tokens of OAUTHBEARER: fetched here from time to time, and told to the workers."""

import asyncio
import logging
import ssl
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

from pkafka.errors import PkafkaError
from pkafka.security.tls_context import Store, TlsSettings, client_context
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.config.sasl import SASL_PROTOCOLS, SignedTokens, sasl_listener
from pkafka.server.control.siblings import Siblings
from pkafka.server.ipc import words
from pkafka.server.ipc.peer import Handler, Payload, Peer

if TYPE_CHECKING:
    import http.client

log = logging.getLogger(__name__)

_TIMEOUT_S: Final = 10.0
_DOCUMENT_BYTES_MAX: Final = 2**20
_MISSING_KEY_PAUSE_S: Final = 60.0
"""A key that was not there is not asked for again before this time, as in Kafka."""
_MISSING_KEYS_MAX: Final = 16


class KeySetError(PkafkaError):
    """A key set cannot be had; the text says why."""


class _Source(NamedTuple):
    """Where a key set is, and how often it is asked for."""

    tokens: SignedTokens
    truststore: Store | None


class KeySetFanout:
    """Follows the key sets that the listeners of this broker name.

    Args:
        config: the settings of the listeners.
        siblings: the workers.
        spawn: runs what goes on for as long as this process.
    """

    def __init__(
        self,
        config: BrokerConfig,
        siblings: Siblings,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self._sources = _sources(config)
        self._siblings = siblings
        self._spawn = spawn
        self._is_started = False
        self._documents: dict[str, str] = {}
        self._again = {url: asyncio.Event() for url in self._sources}
        self._missing: dict[tuple[str, str], float] = {}
        """When a key was missed last, by the loop's clock."""
        self.operations: dict[str, Handler] = {words.MISSING_KEY: self._missing_key}

    def start(self) -> None:
        """Begin to fetch."""
        self._is_started = True
        for url, again in self._again.items():
            self._spawn(self._follow(url, again))

    def take(self, config: BrokerConfig) -> None:
        """Follow what the listeners name from now on, and nothing else."""
        before, self._sources = self._sources, _sources(config)
        for url in before.keys() - self._sources.keys():
            self._documents.pop(url, None)
            self._again.pop(url).set()
        for url, source in self._sources.items():
            if url not in before:
                self._again[url] = asyncio.Event()
                if self._is_started:
                    self._spawn(self._follow(url, self._again[url]))
            elif source != before[url]:
                self._again[url].set()

    async def tell_all(self, peer: Peer) -> None:
        """Tell a worker that has just come what there is."""
        if self._documents:
            await peer.call(words.KEY_SETS, dict(self._documents))

    async def _follow(self, url: str, again: asyncio.Event) -> None:
        """Fetch a key set again and again, until the listeners name it no more."""
        pause_ms = 0
        while self._again.get(url) is again:
            source = self._sources[url]
            tokens = source.tokens
            pause_ms = pause_ms or tokens.retry_backoff_ms
            again.clear()
            try:
                document = await asyncio.to_thread(fetch, url, source.truststore)
            except KeySetError as error:
                log.error("The key set of %s cannot be had, so no new token is trusted: %s", url, error)
                wait_ms = pause_ms
                pause_ms = min(pause_ms * 2, tokens.retry_backoff_max_ms)
            else:
                wait_ms, pause_ms = tokens.refresh_ms, tokens.retry_backoff_ms
                if self._again.get(url) is again and self._documents.get(url) != document:
                    self._documents[url] = document
                    self._siblings.tell_workers(words.KEY_SETS, {url: document})
            try:
                await asyncio.wait_for(again.wait(), wait_ms / 1000)
            except TimeoutError:
                continue

    def _missing_key(self, _peer: Peer, payload: Payload, _blob: memoryview, _fds: list[int]) -> None:
        """A token names a key that its set lacks: it may be a new one."""
        url, key_id = payload
        now_s = asyncio.get_running_loop().time()
        self._missing = {
            missing: at_s for missing, at_s in self._missing.items() if at_s > now_s - _MISSING_KEY_PAUSE_S
        }
        # Whoever can reach the listener can name keys: not each name asks the server.
        if (
            url in self._again
            and (url, key_id) not in self._missing
            and len(self._missing) < _MISSING_KEYS_MAX
        ):
            self._missing[url, key_id] = now_s
            self._again[url].set()


def _sources(config: BrokerConfig) -> Mapping[str, _Source]:
    sources = {}
    for listener in config.listeners:
        if listener.security_protocol in SASL_PROTOCOLS:
            settings = sasl_listener(config, listener.name)
            if isinstance(settings.tokens, SignedTokens):
                options = settings.modules["OAUTHBEARER"].options
                sources[settings.tokens.keys_url] = _Source(settings.tokens, _truststore(options))
    return sources


def _truststore(options: Mapping[str, str]) -> Store | None:
    location = options.get("ssl.truststore.location")
    if location is None:
        return None
    kind = options.get("ssl.truststore.type", "JKS").upper()
    return Store("truststore", kind, location, password=options.get("ssl.truststore.password"))


def fetch(url: str, truststore: Store | None) -> str:
    """Get the document at an address of http or https. Blocks; follows no redirection.

    Raises:
        KeySetError: there is none.
    """
    import http.client  # 20 modules that most brokers have no use for

    try:
        connection = _connection(url, truststore)
    except PkafkaError as error:
        raise KeySetError(str(error)) from None
    parts = urlsplit(url)
    try:
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("GET", path, headers={"Accept": "application/json"})
        answer = connection.getresponse()
        status, data = answer.status, answer.read(_DOCUMENT_BYTES_MAX + 1)
    except ssl.SSLCertVerificationError as error:
        problem = f"its certificate is not trusted: {error.verify_message}"
        raise KeySetError(f"{problem} (ssl.truststore.* among the options of sasl.jaas.config)") from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise KeySetError(str(error)) from None
    finally:
        connection.close()
    if status != http.client.OK:
        raise KeySetError(f"it answers {status}")
    if len(data) > _DOCUMENT_BYTES_MAX:
        raise KeySetError("it is larger than a megabyte")
    return data.decode(errors="replace")


def _connection(url: str, truststore: Store | None) -> "http.client.HTTPConnection":
    import http.client

    parts = urlsplit(url)
    assert parts.hostname is not None
    if parts.scheme == "http":
        return http.client.HTTPConnection(parts.hostname, parts.port, timeout=_TIMEOUT_S)
    context = client_context(TlsSettings(truststore=truststore))
    return http.client.HTTPSConnection(parts.hostname, parts.port, timeout=_TIMEOUT_S, context=context)
