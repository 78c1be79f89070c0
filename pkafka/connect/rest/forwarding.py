"""Requests that another worker has to answer are passed on: to the leader, and from there to an owner, no further."""

import http.client
import json
import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Final
from urllib.parse import quote, urlsplit

from pkafka.connect.distributed.elsewhere import ElsewhereError, RebalanceNeededError
from pkafka.connect.rest.calls import EMPTY, Answer, Call, Handler
from pkafka.connect.rest_errors import RestError, conflict

log = logging.getLogger("org.apache.kafka.connect.runtime.rest.HerderRequestHandler")

_NEXT_HOP: Final = {None: "true", "true": "false"}
"""What a request that is passed on says for ``forward``, by what it came with."""
_TIMEOUT_S: Final = 90.0

Send = Callable[[str, str, str, bytes, dict[str, str]], Answer]


def passing_on(handler: Handler, method: str, send: "Send | None" = None) -> Handler:
    """A handler that passes on what another worker has to answer.

    Args:
        handler: answers here.
        method: of HTTP.
        send: sends a request; by default over HTTP.
    """
    pass_on = send or _send

    def answer(call: Call) -> Answer:
        try:
            return handler(call)
        except RebalanceNeededError:
            raise conflict(
                "Cannot complete request momentarily due to stale configuration (typically caused by a concurrent"
                " config change)"
            ) from None
        except ElsewhereError as elsewhere:
            hop = next(iter(call.all("forward")), None)
            if hop not in _NEXT_HOP:
                raise conflict(
                    "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"
                ) from None
            if elsewhere.url is None:
                raise conflict(
                    "Cannot complete request momentarily due to no known leader URL, likely because a rebalance was"
                    " underway."
                ) from None
            others = [each for each in call.query.split("&") if each and not each.startswith("forward=")]
            query = "&".join([*others, f"forward={_NEXT_HOP[hop]}"])
            log.debug("Forwarding %s %s to %s", method, call.path, elsewhere.url)
            return pass_on(method, elsewhere.url, f"{call.path}?{query}", call.body, call.headers_to_pass())

    return answer


def post_tasks(url: str, connector: str, tasks: object, sign: Callable[[bytes], dict[str, str]]) -> None:
    """Give the leader the tasks of a connector.

    Args:
        url: of the leader.
        tasks: becomes JSON.
        sign: makes the headers that sign the body.

    Raises:
        RestError: it does not answer, or refuses.
    """
    body = json.dumps(tasks, separators=(",", ":")).encode()
    target = f"/connectors/{quote(connector, safe='')}/tasks"
    answer = _send("POST", url, target, body, sign(body))
    if answer.status >= HTTPStatus.BAD_REQUEST:
        raise RestError(answer.status, f"The leader at {url} refuses tasks of {connector}: {answer.text}")


def put_fence(url: str, connector: str, headers: dict[str, str]) -> None:
    """Have the leader fence former tasks of a connector.

    Args:
        url: of the leader.
        headers: that sign the request, which has no body.

    Raises:
        RestError: it refuses, or does not answer (502).
    """
    try:
        answer = _send("PUT", url, f"/connectors/{quote(connector, safe='')}/fence", b"", headers)
    except NoAnswerError as error:
        raise RestError(HTTPStatus.BAD_GATEWAY, str(error)) from error
    if answer.status >= HTTPStatus.BAD_REQUEST:
        raise RestError(answer.status, f"The leader at {url} does not fence {connector}: {answer.text}")


class NoAnswerError(RestError):
    """Another worker does not answer; to who has asked this one, that is an error of the server, as in Kafka."""


def _send(method: str, url: str, target: str, body: bytes, headers: dict[str, str]) -> Answer:
    """Send a request to another worker.

    Raises:
        RestError: it does not answer.
    """
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=_TIMEOUT_S)
    try:
        connection.request(
            method,
            parts.path.rstrip("/") + target,
            body or None,
            {"Content-Type": "application/json", **headers},
        )
        answer = connection.getresponse()
        data = answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise NoAnswerError(500, f"IO Error trying to forward REST request: {error}") from error
    finally:
        connection.close()
    location = answer.headers.get("Location")
    more = {} if location is None else {"Location": location}
    if not data:
        return Answer(answer.status, EMPTY, more)
    return Answer(answer.status, headers=more, text=data.decode())
