"""Asks a worker of Kafka Connect, Java's or pkafka's, by its REST API."""

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any, Final
from urllib.parse import quote

from pkafka.connect.errors import ConnectError

_SCHEMES: Final = ("http://", "https://")


class RefusedError(ConnectError):
    """A worker refuses a request.

    Args:
        status: of HTTP.
        message: the worker's.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class UnreachableError(ConnectError):
    """No worker answers."""


class ConnectClient:
    """Asks one worker; it passes on what another one of its cluster has to do.

    Args:
        url: of the REST API.
        timeout_s: for each request.

    Raises:
        UnreachableError: the URL is none of HTTP's.
    """

    def __init__(self, url: str, timeout_s: float) -> None:
        if not url.startswith(_SCHEMES):
            raise UnreachableError(f"{url} is no URL of a worker: it has to begin with http:// or https://")
        self._url = url.rstrip("/")
        self._timeout_s = timeout_s

    def overview(self) -> dict[str, Any]:
        """Every connector with its configuration and its status."""
        found: dict[str, Any] = self.call("GET", "/connectors?expand=status&expand=info")
        return found

    def status(self, name: str) -> dict[str, Any]:
        """What a connector and its tasks do."""
        found: dict[str, Any] = self.call("GET", f"{_path(name)}/status")
        return found

    def put(self, name: str, configs: Mapping[str, str]) -> None:
        """Create a connector, or change its configuration."""
        self.call("PUT", f"{_path(name)}/config", dict(configs))

    def create(self, name: str, configs: Mapping[str, str], initial_state: str | None) -> None:
        """Create a connector.

        Args:
            initial_state: RUNNING, PAUSED or STOPPED; None: RUNNING.
        """
        body: dict[str, object] = {"name": name, "config": dict(configs)}
        if initial_state is not None:
            body["initial_state"] = initial_state
        self.call("POST", "/connectors", body)

    def delete(self, name: str) -> None:
        """End a connector for good."""
        self.call("DELETE", _path(name))

    def aim(self, name: str, verb: str) -> None:
        """Have a connector ``pause``, ``resume`` or ``stop``."""
        self.call("PUT", f"{_path(name)}/{verb}")

    def restart(self, name: str, *, only_failed: bool) -> None:
        """Start a connector and its tasks anew, or what failed of them."""
        failed = str(only_failed).lower()
        self.call("POST", f"{_path(name)}/restart?includeTasks=true&onlyFailed={failed}")

    def offsets(self, name: str) -> list[dict[str, Any]]:
        """How far a connector has come: partitions with their offsets."""
        found: list[dict[str, Any]] = self.call("GET", f"{_path(name)}/offsets")["offsets"]
        return found

    def reset_offsets(self, name: str) -> str:
        """Forget how far a stopped connector has come; returns what the worker says."""
        return str(self.call("DELETE", f"{_path(name)}/offsets")["message"])

    def errors_of(self, configs: Mapping[str, str]) -> list[str]:
        """What is wrong with a configuration."""
        plugin = quote(configs.get("connector.class", ""), safe="", errors="surrogateescape")
        found = self.call("PUT", f"/connector-plugins/{plugin}/config/validate", dict(configs))
        return [error for each in found["configs"] for error in each["value"]["errors"]]

    def call(self, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401 - JSON
        """Send a request, and return the JSON of the answer; None where it has none.

        Raises:
            RefusedError: the worker refuses.
            UnreachableError: none answers, or what answers is no worker.
        """
        data = None if body is None else json.dumps(body).encode()
        headers = {
            "Accept": "application/json",
            **({} if data is None else {"Content-Type": "application/json"}),
        }
        request = urllib.request.Request(self._url + path, data, headers, method=method)  # noqa: S310 - see __init__
        try:
            with urllib.request.urlopen(request, timeout=self._timeout_s) as answer:  # noqa: S310 - as above
                text = answer.read()
                return json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            with error:
                raise RefusedError(error.code, _message(error.read()) or f"HTTP {error.code}") from error
        except urllib.error.URLError as error:
            raise UnreachableError(f"No worker answers at {self._url}: {error.reason}") from error
        except (OSError, HTTPException, ValueError) as error:
            raise UnreachableError(
                f"What answers at {self._url} is no worker of Kafka Connect: {error}"
            ) from error


def _path(name: str) -> str:
    return f"/connectors/{quote(name, safe='', errors='surrogateescape')}"


def _message(data: bytes) -> str | None:
    try:
        found = json.loads(data)
    except ValueError:
        return None
    return str(found["message"]) if isinstance(found, dict) and "message" in found else None
