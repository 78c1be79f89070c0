"""Where tokens of OAUTHBEARER come from: a token server (client credentials), this client, or a class of the user's.

A token is asked for when the first connection logs in, and again in a thread of its own when
``sasl.login.refresh.*`` says so, so that connections do not wait for it. Only one that has expired makes a
login wait.
"""

import base64
import json
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote_plus, urlencode, urlsplit

from pkafka.clients.errors import AuthenticationError, ConnectError, Stage
from pkafka.clock import Clock
from pkafka.errors import ConfigError
from pkafka.security.jaas import LoginModule
from pkafka.security.jwt import JwtError, claims, unsecured

if TYPE_CHECKING:
    from pkafka.clients.config.security import SecurityOptions

_TIMEOUT_MS: Final = 10_000
_ANSWER_BYTES_MAX: Final = 2**20
_EXTENSION: Final = "extension_"
_SERVER_HANDLER: Final = "OAuthBearerLoginCallbackHandler"
_UNSECURED_HANDLER: Final = "OAuthBearerUnsecuredLoginCallbackHandler"
_URL_KEY: Final = "sasl.oauthbearer.token.endpoint.url"
_HANDLER_KEY: Final = "sasl.login.callback.handler.class"


class Token(NamedTuple):
    """A token, and when it expires (milliseconds since the epoch)."""

    text: str
    expires_ms: int

    def __repr__(self) -> str:
        return f"Token(expires_ms={self.expires_ms})"


class Refreshing(NamedTuple):
    """``sasl.login.refresh.*``: when a token is asked for again."""

    window_factor: float
    window_jitter: float
    buffer_ms: int
    min_period_ms: int

    def due_ms(self, now_ms: int, expires_ms: int, chance: float) -> int:
        """When to ask for the next token, as Kafka decides it.

        Args:
            now_ms: when the token came.
            expires_ms: its end.
            chance: a number between 0 and 1, which spreads clients.
        """
        left_ms = expires_ms - now_ms
        due_ms = now_ms + int(left_ms * (self.window_factor + self.window_jitter * chance))
        if self.buffer_ms + self.min_period_ms > left_ms:
            return due_ms
        return max(min(due_ms, expires_ms - self.buffer_ms), now_ms + self.min_period_ms)


class TokenSource:
    """The token of a client, kept until it has to be renewed. Thread-safe.

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

    def token(self) -> Token:
        """A token that is valid now; waits for one only where there is none.

        Raises:
            AuthenticationError: the token server refuses this client.
            ConnectError: it cannot be reached.
        """
        token, now_ms = self._token, self._clock.now_ms()
        if token is None or now_ms >= token.expires_ms:
            return self._renew()
        if now_ms >= self._due_ms and (self._thread is None or not self._thread.is_alive()):
            self._thread = threading.Thread(target=self._renew_quietly, name="pkafka-token", daemon=True)
            self._thread.start()
        return token

    def _renew(self) -> Token:
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
            self._renew()
        except ConnectError as error:
            logging.getLogger(__name__).warning("the token of this client could not be renewed: %s", error)


def token_source(config: "SecurityOptions", module: LoginModule, clock: Clock) -> TokenSource:
    """What gets tokens as the configuration says.

    Raises:
        ConfigError: it does not say how, or says it wrongly.
    """
    refreshing = Refreshing(
        config.sasl_login_refresh_window_factor,
        config.sasl_login_refresh_window_jitter,
        config.sasl_login_refresh_buffer_seconds * 1_000,
        config.sasl_login_refresh_min_period_seconds * 1_000,
    )
    return TokenSource(_fetcher(config, module, clock), refreshing, clock)


def extensions(module: LoginModule) -> dict[str, str]:
    """The SASL extensions that the login module asks for (KIP-342)."""
    found: dict[str, str] = {}
    for name, value in module.options.items():
        for prefix in (_EXTENSION, "unsecuredLoginExtension_"):
            if name.startswith(prefix):
                found[name.removeprefix(prefix)] = value
    return found


def _fetcher(config: "SecurityOptions", module: LoginModule, clock: Clock) -> Callable[[], Token]:
    handler = config.sasl_login_callback_handler_class
    simple = handler.rpartition(".")[2] if isinstance(handler, str) else ""
    if handler is not None and simple not in (_SERVER_HANDLER, _UNSECURED_HANDLER):
        return _from_object(handler, clock)
    url = config.sasl_oauthbearer_token_endpoint_url
    if simple == _SERVER_HANDLER or (url and simple != _UNSECURED_HANDLER):
        return TokenServer(config, module, clock).fetch
    _own_token(config, module.options, clock.now_ms())  # what is wrong with it is told now
    return lambda: _own_token(config, module.options, clock.now_ms())


def _from_object(handler: object, clock: Clock) -> Callable[[], Token]:
    from pkafka.clients.plugins import load

    made = load(_HANDLER_KEY, handler, methods=("token",))

    def fetch() -> Token:
        try:
            text = str(made.token())
        except Exception as error:
            problem = f"{type(made).__name__} gave no token: {error}"
            raise AuthenticationError(Stage.AUTHENTICATE, "", f"login: {problem}") from error
        return _dated(text, None, clock.now_ms())

    return fetch


def _own_token(config: "SecurityOptions", options: Mapping[str, str], now_ms: int) -> Token:
    """A token without a signature, of the claims that the login module lists (for developers' brokers)."""
    said: dict[str, Any] = {}
    for prefix, read in (("String", str), ("Number", _number), ("List", _list)):
        start = f"unsecuredLogin{prefix}Claim_"
        said.update(
            {
                name.removeprefix(start): read(value)
                for name, value in options.items()
                if name.startswith(start)
            }
        )
    principal = options.get("unsecuredLoginPrincipalClaimName", config.sasl_oauthbearer_sub_claim_name)
    if principal not in said:
        problem = f'says no name: unsecuredLoginStringClaim_{principal}="..."'
        raise ConfigError("sasl.jaas.config", problem)
    life_s = _number(options.get("unsecuredLoginLifetimeSeconds", "3600"))
    said.setdefault("iat", now_ms / 1_000)
    said.setdefault("exp", now_ms / 1_000 + life_s)
    return Token(unsecured(said), int(said["exp"] * 1_000))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError("sasl.jaas.config", "has a number of an unsecured token that is none") from None


def _list(text: str) -> list[str]:
    """A list whose first character, if it is no letter or digit, is what stands between its parts."""
    if text and not text[0].isalnum():
        return text[1:].split(text[0])
    return text.split(",") if text else []


class TokenServer:
    """A server that gives tokens for the id and the secret of a client (RFC 6749, client credentials; KIP-768).

    Raises:
        ConfigError: its address is missing or no http(s) one, or the login module has no ``clientId``.
    """

    def __init__(self, config: "SecurityOptions", module: LoginModule, clock: Clock) -> None:
        url = urlsplit(config.sasl_oauthbearer_token_endpoint_url or "")
        if url.scheme not in ("http", "https") or not url.hostname:
            problem = "must be an http or https address"
            raise ConfigError(_URL_KEY, problem, config.sasl_oauthbearer_token_endpoint_url or "")
        missing = [name for name in ("clientId", "clientSecret") if not module.options.get(name)]
        if missing:
            raise ConfigError("sasl.jaas.config", f"has no {missing[0]} for {_URL_KEY}")
        self._host = url.hostname
        self._port = url.port
        self._is_secure = url.scheme == "https"
        self._path = (url.path or "/") + (f"?{url.query}" if url.query else "")
        self._config = config
        self._options = module.options
        self._clock = clock

    def fetch(self) -> Token:
        """Ask for a token, once.

        Raises:
            AuthenticationError: the server refuses.
            ConnectError: the server cannot be reached, or has trouble of its own.
        """
        import http.client
        import ssl

        connection = self._connection()
        try:
            connection.connect()
            connection.sock.settimeout((self._config.sasl_login_read_timeout_ms or _TIMEOUT_MS) / 1_000)
            connection.request("POST", self._path, body=self._body(), headers=self._headers())
            answer = connection.getresponse()
            status, data = answer.status, answer.read(_ANSWER_BYTES_MAX)
        except ssl.SSLCertVerificationError as error:
            problem = f"is not trusted: {error.verify_message}"
            raise self._failed(
                problem, hint="ssl.truststore.* among the options of sasl.jaas.config"
            ) from None
        except (OSError, http.client.HTTPException) as error:
            raise self._failed(f"cannot be asked: {error}") from None
        finally:
            connection.close()
        return self._read(status, data)

    def _connection(self) -> Any:  # noqa: ANN401 - http.client is imported late
        import http.client

        timeout_s = (self._config.sasl_login_connect_timeout_ms or _TIMEOUT_MS) / 1_000
        if not self._is_secure:
            return http.client.HTTPConnection(self._host, self._port, timeout=timeout_s)
        from pkafka.security.tls_context import TlsSettings, client_context

        context = client_context(TlsSettings(truststore=_truststore(self._options)))
        return http.client.HTTPSConnection(self._host, self._port, timeout=timeout_s, context=context)

    def _headers(self) -> dict[str, str]:
        name, secret = self._options["clientId"], self._options["clientSecret"]
        if self._config.sasl_oauthbearer_header_urlencode:
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
            text = f"login: the token server {self._host} refuses this client with {status}"
            hint = "check clientId, clientSecret and scope in sasl.jaas.config"
            raise AuthenticationError(
                Stage.AUTHENTICATE, self._host, f"{text}{f' ({reason})' if reason else ''}", hint=hint
            )
        if not isinstance(said.get("access_token"), str):
            raise self._failed("answers without an access_token")
        return _dated(said["access_token"], said.get("expires_in"), self._clock.now_ms())

    def _failed(self, problem: str, *, hint: str | None = None) -> ConnectError:
        text = f"login: the token server {self._host} {problem}"
        return ConnectError(Stage.AUTHENTICATE, self._host, text, hint=hint or f"check {_URL_KEY}")


def _truststore(options: Mapping[str, str]) -> Any:  # noqa: ANN401 - the module of stores is imported late
    location = options.get("ssl.truststore.location")
    if location is None:
        return None
    from pkafka.security.tls_context import Store

    kind = options.get("ssl.truststore.type", "JKS").upper()
    return Store("truststore", kind, location, password=options.get("ssl.truststore.password"))


def _dated(text: str, expires_in: object, now_ms: int) -> Token:
    """A token with its end: what it says itself, or what its giver says.

    Raises:
        AuthenticationError: neither says it.
    """
    try:
        expires_s = claims(text).get("exp")
    except JwtError:
        expires_s = None
    if isinstance(expires_s, int | float):
        return Token(text, int(expires_s * 1_000))
    if isinstance(expires_in, int | float):
        return Token(text, now_ms + int(expires_in * 1_000))
    raise AuthenticationError(
        Stage.AUTHENTICATE, "", "login: the token does not say when it expires (claim exp)"
    )
