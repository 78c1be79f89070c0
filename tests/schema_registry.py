"""A Schema Registry for tests: it gives ids and versions, and compares no schemas but for being the same."""

import base64
import contextlib
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote, urlsplit

from tests.http_server import HttpServer, Reply, Request


class SchemaRegistry:
    """What a registry knows.

    Args:
        user: who may ask, as ``name:password``; None: everybody.
    """

    def __init__(self, user: str | None = None) -> None:
        self.user = user
        self.subjects: dict[str, list[int]] = {}
        self.schemas: list[dict[str, Any]] = []
        self.incompatible: set[str] = set()
        self.server = HttpServer(self.answer)
        self.failures: list[Reply] = []
        """Answered first, before anything is looked at."""

    @property
    def url(self) -> str:
        """Where it is."""
        return self.server.url

    @property
    def asked(self) -> list[str]:
        """The requests that came, as ``GET /subjects``."""
        return [f"{each.method} {each.path}" for each in self.server.requests]

    def add(self, subject: str, schema: object, **more: Any) -> int:
        """Another version of a subject; its id."""
        body = {"schema": schema if isinstance(schema, str) else json.dumps(schema), **more}
        if body not in self.schemas:
            self.schemas.append(body)
        schema_id = self.schemas.index(body) + 1
        versions = self.subjects.setdefault(subject, [])
        if schema_id not in versions:
            versions.append(schema_id)
        return schema_id

    def answer(self, request: Request) -> Reply:
        """What it says to a request."""
        if self.failures:
            return self.failures.pop(0)
        if self.user is not None:
            wanted = "Basic " + base64.b64encode(self.user.encode()).decode()
            if request.headers.get("Authorization") != wanted:
                return _refused(401, 40101, "Unauthorized")
        parts = [unquote(each) for each in urlsplit(request.path).path.strip("/").split("/")]
        body: Any = json.loads(request.body) if request.body else None
        match request.method, *parts:
            case "GET", "subjects":
                return _said(sorted(self.subjects))
            case "GET", "schemas", "ids", number:
                known = self.schemas[int(number) - 1 : int(number)]
                return _said(known[0]) if known else _refused(404, 40403, "Schema not found")
            case "POST", "subjects", subject, "versions":
                if subject in self.incompatible:
                    return _refused(409, 409, "Schema being registered is incompatible")
                return _said({"id": self.add(subject, **body)})
            case "POST", "compatibility", "subjects", subject, "versions", "latest":
                return _said({"is_compatible": subject not in self.incompatible})
            case _, "subjects", subject, *more:
                return self._of_subject(request.method, subject, more, body)
        return _refused(404, 404, "HTTP 404 Not Found")

    def _of_subject(self, method: str, subject: str, parts: list[str], body: Any) -> Reply:
        match method, *parts:
            case _ if subject not in self.subjects:
                return _refused(404, 40401, f"Subject '{subject}' not found.")
            case "GET", "versions":
                return _said(list(range(1, len(self.subjects[subject]) + 1)))
            case "GET", "versions", named:
                count = len(self.subjects[subject])
                number = count if named == "latest" else int(named)
                if not 1 <= number <= count:
                    return _refused(404, 40402, f"Version {named} not found.")
                return self._version(subject, number)
            case ("POST",):
                ids = [self.schemas[each - 1] for each in self.subjects[subject]]
                if body not in ids:
                    return _refused(404, 40403, "Schema not found")
                return self._version(subject, ids.index(body) + 1)
        return _refused(404, 404, "HTTP 404 Not Found")

    def _version(self, subject: str, version: int) -> Reply:
        schema_id = self.subjects[subject][version - 1]
        found = {"subject": subject, "version": version, "id": schema_id, **self.schemas[schema_id - 1]}
        return _said(found)


@contextlib.contextmanager
def schema_registry(user: str | None = None) -> Iterator[SchemaRegistry]:
    """A registry that runs until the block ends."""
    registry = SchemaRegistry(user)
    with registry.server.running():
        yield registry


def _said(content: object) -> Reply:
    return Reply(
        200, json.dumps(content).encode(), {"Content-Type": "application/vnd.schemaregistry.v1+json"}
    )


def _refused(status: int, error_code: int, message: str) -> Reply:
    return Reply(status, json.dumps({"error_code": error_code, "message": message}).encode())
