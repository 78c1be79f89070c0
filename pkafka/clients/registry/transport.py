"""Sends requests of JSON to a Schema Registry: repeats those that may succeed later, asks the next server."""

import base64
import http.client
import json
import ssl
import time
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from pkafka.clients.registry.errors import RegistryError, UnavailableError, refusal
from pkafka.clients.registry.settings import RegistrySettings

_JSON: Final = "application/vnd.schemaregistry.v1+json"
_PASSING: Final = frozenset({408, 429, 500, 502, 503, 504})
"""Statuses after which the same request may succeed."""


class Transport:
    """Sends requests, one connection for each: answers are kept, so that there are few.

    Args:
        settings: where the registry is.
        sleep: waits so many seconds before a repetition.

    Raises:
        ConfigError: a store of keys cannot be read.
    """

    def __init__(self, settings: RegistrySettings, sleep: Callable[[float], None] = time.sleep) -> None:
        self._settings = settings
        self._sleep = sleep
        self._first = 0
        self._tls: ssl.SSLContext | None = None
        if any(url.startswith("https:") for url in settings.urls):
            from pkafka.security.tls_context import client_context

            self._tls = client_context(settings.tls)
        self._headers = {"Accept": f"{_JSON}, application/json", "Content-Type": _JSON}
        if settings.user_info:
            coded = base64.b64encode(settings.user_info.encode()).decode("ascii")
            self._headers["Authorization"] = f"Basic {coded}"
        elif settings.token:
            self._headers["Authorization"] = f"Bearer {settings.token}"

    def ask(self, method: str, path: str, query: Mapping[str, str] | None = None, body: object = None) -> Any:  # noqa: ANN401 - it is JSON
        """What the registry answers.

        Args:
            method: of HTTP.
            path: below the registry's URL, quoted.
            query: further parameters.
            body: that is sent as JSON; None: none.

        Raises:
            RegistryError: it refuses; :class:`UnavailableError`: nobody answers.
        """
        target = f"{path}?{urlencode(query)}" if query else path
        sent = None if body is None else json.dumps(body).encode()
        wait_ms = self._settings.retry_wait_ms
        for left in range(self._settings.max_retries, -1, -1):
            try:
                return self._ask_each(method, target, sent)
            except UnavailableError:
                if not left:
                    raise
                self._sleep(min(wait_ms, self._settings.retry_wait_max_ms) / 1000)
                wait_ms *= 2
        raise AssertionError("the last attempt returns or raises")

    def _ask_each(self, method: str, target: str, body: bytes | None) -> Any:  # noqa: ANN401
        urls = self._settings.urls
        failure: UnavailableError | None = None
        for turn in range(len(urls)):
            index = (self._first + turn) % len(urls)
            try:
                status, answer = self._send(urls[index], method, target, body)
            except (OSError, http.client.HTTPException) as error:
                text = (
                    f"The Schema Registry at {urls[index]} does not answer: {error or type(error).__name__}"
                )
                failure = UnavailableError(text)
                failure.__cause__ = error
                continue
            self._first = index
            return _content(status, answer)
        assert failure is not None
        raise failure

    def _send(self, url: str, method: str, target: str, body: bytes | None) -> tuple[int, bytes]:
        parts = urlsplit(url)
        assert parts.hostname is not None
        timeout_s = self._settings.timeout_ms / 1000
        connection: http.client.HTTPConnection
        if parts.scheme == "https":
            connection = http.client.HTTPSConnection(
                parts.hostname, parts.port, timeout=timeout_s, context=self._tls
            )
        else:
            connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout_s)
        try:
            connection.request(method, parts.path + target, body, self._headers)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()


def _content(status: int, answer: bytes) -> Any:  # noqa: ANN401
    try:
        content = json.loads(answer) if answer else None
    except ValueError:
        content = None
        if 200 <= status < 300:
            raise RegistryError(
                "The Schema Registry answers something that is not JSON", status=status
            ) from None
    if 200 <= status < 300:
        return content
    details = content if isinstance(content, dict) else {}
    error_code, message = details.get("error_code", 0), details.get("message", "no reason given")
    if status in _PASSING:
        text = f"The Schema Registry answers {error_code or status}: {message}"
        raise UnavailableError(text, status=status, error_code=error_code)
    raise refusal(status, error_code, message)
