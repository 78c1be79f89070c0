"""One request of the REST API and its answer, free of the framework that carries them."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qs, unquote

from pkafka.connect.errors import ConnectError
from pkafka.connect.rest_errors import RestError, bad_request

JSON: Final = "application/json"


@dataclass(frozen=True, slots=True)
class Answer:
    """What is sent back.

    Args:
        status: of HTTP.
        body: becomes JSON; None: there is none.
        headers: beside those that every answer has.
        text: instead of a body, as it is.
    """

    status: int = 200
    body: object = None
    headers: Mapping[str, str] | None = None
    text: str | None = None
    media_type: str = JSON


_PASSED_ON: Final = ("authorization", "x-connect-authorization", "x-connect-request-signature-algorithm")


class Empty:
    """The body of an answer that has none."""


EMPTY: Final = Empty()


@dataclass(frozen=True, slots=True)
class Call:
    """What was asked.

    Args:
        names: in the path, still percent-encoded.
        query: behind the question mark.
        body: as it came.
        path: as it came, without the query.
        headers: of the request, their names in lower case.
    """

    names: Mapping[str, str]
    query: str
    body: bytes
    path: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    def headers_to_pass(self) -> dict[str, str]:
        """What another worker needs to know of the request: who asks, and what another worker has signed it with."""
        return {name: self.headers[name] for name in _PASSED_ON if name in self.headers}

    def name(self, which: str = "connector") -> str:
        """A name in the path, decoded."""
        return unquote(self.names[which])

    def number(self, which: str = "task") -> int:
        """A number in the path.

        Raises:
            RestError: it is none; as to Kafka, there is no such path then.
        """
        text = self.names[which]
        if not text.isascii() or not text.isdecimal():
            raise RestError(404, "HTTP 404 Not Found")
        return int(text)

    def all(self, name: str) -> list[str]:
        """The values of a parameter."""
        return parse_qs(self.query, keep_blank_values=True).get(name, [])

    def flag(self, name: str, *, default: bool = False) -> bool:
        """A parameter that is true or false; anything else is false, as in Kafka."""
        values = self.all(name)
        return default if not values else values[0].lower() == "true"

    def document(self) -> object:
        """The body, read.

        Raises:
            ConnectError: it is no JSON.
        """
        try:
            return json.loads(self.body) if self.body.strip() else None
        except (ValueError, RecursionError) as error:
            raise ConnectError(f"The body of the request is no JSON: {error}") from error

    def fields(self, what: str) -> dict[str, object]:
        """The body, an object.

        Args:
            what: it is, for errors.

        Raises:
            ConnectError: it is something else.
        """
        found = self.document()
        if not isinstance(found, dict):
            kind = "nothing" if found is None else f"a JSON {type(found).__name__}"
            raise ConnectError(f"The body of the request has to be {what}, a JSON object; it is {kind}")
        return found

    def configs(self, given: object = None) -> dict[str, str | None]:
        """A configuration: names to texts; numbers and booleans become texts, as Jackson makes them.

        Args:
            given: part of the body; None: all of it.

        Raises:
            ConnectError: it is something else.
        """
        found = self.fields("a configuration") if given is None else given
        if not isinstance(found, dict):
            raise ConnectError("A configuration has to be a JSON object of texts")
        configs: dict[str, str | None] = {}
        for name, value in found.items():
            if isinstance(value, dict | list):
                raise ConnectError(
                    f"The value of {name} in a configuration has to be a text, not a JSON {type(value).__name__}"
                )
            configs[name] = value if value is None or isinstance(value, str) else json.dumps(value)
        return configs


Handler = Callable[[Call], Answer]


def texts(configs: Mapping[str, str | None]) -> dict[str, str]:
    """A configuration without the names that have no value."""
    return {name: value for name, value in configs.items() if value is not None}


def same_name(name: str, configs: dict[str, str]) -> dict[str, str]:
    """The configuration with the connector's name.

    Raises:
        RestError: it has another one.
    """
    own = configs.setdefault("name", name)
    if own != name:
        raise bad_request(
            f"Connector name configuration ({own}) doesn't match connector name in the URL ({name})"
        )
    return configs
