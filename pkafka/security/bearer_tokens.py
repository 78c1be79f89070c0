"""Where tokens of OAUTHBEARER come from, for clients and for brokers that log in at others.

A token is asked for when the first connection logs in, and again in a thread of its own when
``sasl.login.refresh.*`` says so, so that connections do not wait for it. Only one that has expired makes a
login wait.
"""

import base64
import json
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import quote_plus, urlencode

from pkafka.clock import Clock
from pkafka.errors import PkafkaError
from pkafka.security.jwt import JwtError, claims
from pkafka.security.token_settings import URL_KEY, Refreshing, Token, TokenSettings, own_token

_TIMEOUT_MS: Final = 10_000
_ANSWER_BYTES_MAX: Final = 2**20


class NoTokenError(PkafkaError):
    """There is no token; another time there may be one.

    Args:
        message: what happened, without a secret.
        host: of the token server; empty where none was asked.
        hint: what to do about it.
    """

    def __init__(self, message: str, *, host: str = "", hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.host = host
        self.hint = hint


class TokenDeniedError(NoTokenError):
    """Nobody gives such a token to whoever asks; asking again does not help."""


class TokenSource:
    """The token of who logs in, kept until it has to be renewed. Thread-safe.

    Args:
        fetch: gets a new token; may wait.
        refreshing: when to do that again.
        clock: for the expiry.
    """

    def __init__(self, fetch: Callable[[], Token], refreshing: Refreshing, clock: Clock) -> None:
        self._fetch = fetch
        self._refreshing = refreshing
        self._clock = clock
        self._lock = threading.Lock()
        self._token: Token | None = None
        self._due_ms = 0
        self._thread: threading.Thread | None = None

    @property
    def due_ms(self) -> int:
        """When the next token is to be fetched; 0 before the first."""
        return self._due_ms

    def token(self) -> Token:
        """A token that is valid now; waits for one only where there is none.

        Raises:
            PkafkaError: what ``fetch`` raises.
        """
        token = self.held()
        if token is None:
            return self.renew()
        if self._clock.now_ms() >= self._due_ms and (self._thread is None or not self._thread.is_alive()):
            self._thread = threading.Thread(target=self._renew_quietly, name="pkafka-token", daemon=True)
            self._thread.start()
        return token

    def held(self) -> Token | None:
        """The token that there is, where it is valid. Never waits."""
        token = self._token
        return None if token is None or self._clock.now_ms() >= token.expires_ms else token

    def renew(self) -> Token:
        """Fetch a token and keep it.

        Raises:
            PkafkaError: what ``fetch`` raises; the token before is kept.
        """
        import random

        with self._lock:
            token = self._fetch()
            chance = random.random()  # noqa: S311 - spreads clients, guards nothing
            self._due_ms = self._refreshing.due_ms(self._clock.now_ms(), token.expires_ms, chance)
            self._token = token
            return token

    def _renew_quietly(self) -> None:
        import logging

        try:
            self.renew()
        except PkafkaError as error:
            logging.getLogger(__name__).warning("the token for OAUTHBEARER could not be renewed: %s", error)


def fetcher(settings: TokenSettings, clock: Clock) -> Callable[[], Token]:
    """What gets a new token as the settings say; it may wait, and raises NoTokenError.

    Raises:
        ConfigError: they do not say how, or say it wrongly.
    """
    settings.check(clock.now_ms())
    if settings.is_of_server:
        return TokenServer(settings, clock).fetch
    return lambda: own_token(settings, clock.now_ms())


class TokenServer:
    """A server that gives tokens for the id and the secret of a client (RFC 6749, client credentials; KIP-768).

    Raises:
        ConfigError: its address is missing or no http(s) one, or the login module has no ``clientId``.
    """

    def __init__(self, settings: TokenSettings, clock: Clock) -> None:
        url = settings.server()
        assert url.hostname is not None
        self._host = url.hostname
        self._port = url.port
        self._is_secure = url.scheme == "https"
        self._path = (url.path or "/") + (f"?{url.query}" if url.query else "")
        self._settings = settings
        self._options = settings.options
        self._clock = clock

    def fetch(self) -> Token:
        """Ask for a token, once.

        Raises:
            TokenDeniedError: the server refuses.
            NoTokenError: the server cannot be reached, or has trouble of its own.
        """
        import http.client
        import ssl

        connection = self._connection()
        try:
            connection.connect()
            connection.sock.settimeout((self._settings.read_timeout_ms or _TIMEOUT_MS) / 1_000)
            connection.request("POST", self._path, body=self._body(), headers=self._headers())
            answer = connection.getresponse()
            status, data = answer.status, answer.read(_ANSWER_BYTES_MAX)
        except ssl.SSLCertVerificationError as error:
            problem = f"is not trusted: {error.verify_message}"
            raise self._failed(
                problem, hint="ssl.truststore.* among the options of sasl.jaas.config"
            ) from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise self._failed(f"cannot be asked: {error}") from None
        finally:
            connection.close()
        return self._read(status, data)

    def _connection(self) -> Any:  # noqa: ANN401 - http.client is imported late
        import http.client

        timeout_s = (self._settings.connect_timeout_ms or _TIMEOUT_MS) / 1_000
        if not self._is_secure:
            return http.client.HTTPConnection(self._host, self._port, timeout=timeout_s)
        from pkafka.security.tls_context import TlsSettings, client_context

        context = client_context(TlsSettings(truststore=_truststore(self._options)))
        return http.client.HTTPSConnection(self._host, self._port, timeout=timeout_s, context=context)

    def _headers(self) -> dict[str, str]:
        name, secret = self._options["clientId"], self._options["clientSecret"]
        if self._settings.is_url_encoded:
            name, secret = quote_plus(name), quote_plus(secret)
        credentials = base64.b64encode(f"{name}:{secret}".encode()).decode()
        return {
            "Accept": "application/json",
            "Authorization": f"Basic {credentials}",
            "Content-Type": "application/x-www-form-urlencoded",
        }

    def _body(self) -> str:
        fields = {"grant_type": "client_credentials"}
        if self._options.get("scope"):
            fields["scope"] = self._options["scope"]
        return urlencode(fields)

    def _read(self, status: int, data: bytes) -> Token:
        try:
            answer = json.loads(data)
        except ValueError:
            answer = None
        said = answer if isinstance(answer, dict) else {}
        if status >= 500 or status == 429:
            raise self._failed(f"answers {status}")
        if status >= 300:
            reason = ": ".join(str(said[key])[:200] for key in ("error", "error_description") if key in said)
            text = f"the token server {self._host} refuses this client with {status}"
            hint = "check clientId, clientSecret and scope in sasl.jaas.config"
            raise TokenDeniedError(f"{text}{f' ({reason})' if reason else ''}", host=self._host, hint=hint)
        if not isinstance(said.get("access_token"), str):
            raise self._failed("answers without an access_token")
        return dated(said["access_token"], said.get("expires_in"), self._clock.now_ms())

    def _failed(self, problem: str, *, hint: str | None = None) -> NoTokenError:
        text = f"the token server {self._host} {problem}"
        return NoTokenError(text, host=self._host, hint=hint or f"check {URL_KEY}")


def _truststore(options: Mapping[str, str]) -> Any:  # noqa: ANN401 - the module of stores is imported late
    location = options.get("ssl.truststore.location")
    if location is None:
        return None
    from pkafka.security.tls_context import Store

    kind = options.get("ssl.truststore.type", "JKS").upper()
    return Store("truststore", kind, location, password=options.get("ssl.truststore.password"))


def dated(text: str, expires_in: object, now_ms: int) -> Token:
    """A token with its end: what it says itself, or what its giver says.

    Raises:
        TokenDeniedError: neither says it.
    """
    try:
        expires_s = claims(text).get("exp")
    except JwtError:
        expires_s = None
    if isinstance(expires_s, int | float):
        return Token(text, int(expires_s * 1_000))
    if isinstance(expires_in, int | float):
        return Token(text, now_ms + int(expires_in * 1_000))
    raise TokenDeniedError("the token does not say when it expires (claim exp)")
