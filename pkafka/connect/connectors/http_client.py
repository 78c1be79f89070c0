"""Sends the requests of the HTTP sink, with a client of httpx: connections that stay, time-outs, logins."""

import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pkafka.connect.config_def import Password
from pkafka.connect.errors import ConnectError, RetriableError

if TYPE_CHECKING:
    import httpx

_BODY_MAX: Final = 2048
"""Of an answer, as much is read as a message needs."""
_EARLIER_S: Final = 30.0
"""A token is renewed so long before it ends."""
_TOKEN_S: Final = 300.0
"""How long one is used that does not say when it ends."""


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: Mapping[str, str]
    text: str


class HttpClient:
    """Sends requests, and logs in.

    Args:
        timeout_ms: of a whole request, from the connection to the end of the answer.
        connect_timeout_ms: of its first step.
        ca_file: certificates in PEM that servers are trusted by; None: those that httpx brings along.
        login: who asks; see :class:`Login` and its like; None: nobody.

    Raises:
        ConnectError: httpx is not installed, or a file cannot be read.
    """

    def __init__(
        self, timeout_ms: int, connect_timeout_ms: int, ca_file: str | None, login: "Login | None" = None
    ) -> None:
        try:
            import httpx
        except ImportError as error:
            raise ConnectError("The HTTP sink needs httpx: pip install 'pkafka[http]'") from error
        if not logging.getLogger("httpx").level:
            logging.getLogger("httpx").setLevel(logging.WARNING)  # it has a line for every request
        self._timeout_s = timeout_ms / 1000
        timeout = httpx.Timeout(self._timeout_s, connect=connect_timeout_ms / 1000)
        self._client = httpx.Client(timeout=timeout, verify=_trust(ca_file), follow_redirects=False)
        self._login = login

    def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> Answer:
        """Send a request; one that is refused by 401 is sent once more with a new token, if there are such.

        Raises:
            RetriableError: nobody answers, or not in time.
            ConnectError: the URL or a header cannot be sent.
        """
        if self._login is None:
            return self._once(method, url, headers, body)
        sent = {**headers, "Authorization": self._login.header(self)}
        answer = self._once(method, url, sent, body)
        if answer.status == 401 and self._login.renew():
            sent["Authorization"] = self._login.header(self)
            answer = self._once(method, url, sent, body)
        return answer

    def _once(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> Answer:
        import httpx

        try:
            with self._client.stream(method, url, headers=dict(headers), content=body) as response:
                return Answer(response.status_code, response.headers, self._beginning(response))
        except (httpx.UnsupportedProtocol, httpx.InvalidURL, httpx.LocalProtocolError, ValueError) as error:
            raise ConnectError(f"{method} {url} cannot be sent: {error}") from error
        except httpx.TransportError as error:
            what = str(error) or type(error).__name__
            raise RetriableError(f"{method} {url} was not answered: {what}") from error

    def _beginning(self, response: "httpx.Response") -> str:
        """The first bytes of an answer; one that goes on for ever is left where it is."""
        import httpx

        found = b""
        end = time.monotonic() + self._timeout_s
        try:
            for part in response.iter_bytes():
                found += part
                if len(found) > _BODY_MAX or time.monotonic() > end:
                    break
        except httpx.DecodingError:
            pass  # the text is for people
        except httpx.TransportError:
            if response.is_success:
                raise  # whether the server has done it is not known
        return found[:_BODY_MAX].decode("utf-8", "replace").strip()

    def post_form(self, url: str, form: Mapping[str, str], user: str, password: str) -> Any:  # noqa: ANN401 - JSON
        """What a server answers to a form, as JSON.

        Raises:
            RetriableError: it does not answer for now.
            ConnectError: it refuses, or answers no JSON.
        """
        import httpx

        try:
            response = self._client.post(url, data=dict(form), auth=(user, password))
        except httpx.TransportError as error:
            raise RetriableError(f"{url} was not answered: {error or type(error).__name__}") from error
        if response.status_code == 429 or response.status_code >= 500:
            raise RetriableError(f"{url} gives no token for now: {response.status_code}")
        if not response.is_success:
            raise ConnectError(f"{url} gives no token: {response.status_code} {response.text[:_BODY_MAX]}")
        try:
            return response.json()
        except ValueError as error:
            raise ConnectError(f"{url} answers no JSON: {error}") from error

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def _trust(ca_file: str | None) -> Any:  # noqa: ANN401 - what httpx takes
    import ssl

    if not ca_file:
        return True
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise ConnectError(f"The certificates in {ca_file} cannot be read: {error}") from error


class Login:
    """A login that stays the same: of a user, or of a token.

    Args:
        header: the value of ``Authorization``.
    """

    def __init__(self, header: str) -> None:
        self._header = header

    @classmethod
    def basic(cls, user: str, password: Password | None) -> "Login":
        """Of a user with a password (RFC 7617)."""
        import base64

        pair = f"{user}:{'' if password is None else password.value}"
        return cls(f"Basic {base64.b64encode(pair.encode()).decode()}")

    def header(self, _client: HttpClient) -> str:
        """The value of ``Authorization``."""
        return self._header

    def renew(self) -> bool:
        """Whether another attempt may be let in."""
        return False


class ClientCredentials(Login):
    """Tokens that a server gives for the credentials of a client (RFC 6749, 4.4)."""

    def __init__(self, url: str, client_id: str, secret: Password, scope: str | None) -> None:
        super().__init__("")
        self._url = url
        self._client_id = client_id
        self._secret = secret
        self._scope = scope
        self._ends = 0.0

    def header(self, client: HttpClient) -> str:
        """The value of ``Authorization``, with a token that is valid.

        Raises:
            RetriableError, ConnectError: there is none.
        """
        if time.monotonic() >= self._ends:
            form = {"grant_type": "client_credentials", **({"scope": self._scope} if self._scope else {})}
            found = client.post_form(self._url, form, self._client_id, self._secret.value)
            token = found.get("access_token") if isinstance(found, dict) else None
            if not isinstance(token, str) or not token:
                raise ConnectError(f"{self._url} answers without access_token")
            self._header = f"Bearer {token}"
            lasts = found.get("expires_in")
            lasts_s = float(lasts) - _EARLIER_S if isinstance(lasts, int | float) else _TOKEN_S
            self._ends = time.monotonic() + max(1.0, lasts_s)
        return self._header

    def renew(self) -> bool:
        """Forget the token."""
        self._ends = 0.0
        return True
