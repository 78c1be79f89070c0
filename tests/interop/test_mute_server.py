"""A server that accepts connections and answers nothing: how soon clients give it up, as Kafka's own do."""

import contextlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from pkafka.clients.admin import Admin
from pkafka.clients.errors import ConnectError
from pkafka.java.properties import load_properties
from tests.fakes.mute_server import MuteServer
from tests.interop.conftest import JavaTool

REQUEST_S: Final = 1.5
BUSY_S: Final = 15.0
"""So much later a client on a busy machine notices: still before any other time-out of its settings and defaults."""
# The time for setting up a connection is shorter, and does not count: TCP stands at once.
SETTINGS: Final = """\
request.timeout.ms=1500
default.api.timeout.ms=20000
socket.connection.setup.timeout.ms=300
socket.connection.setup.timeout.max.ms=300
"""


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    path = tmp_path / "client.properties"
    path.write_text(SETTINGS)
    return path


def pause_s(ask: Callable[[str], object]) -> float:
    """How long the client stays with its first connection before it makes another."""
    with MuteServer() as server:
        asking = threading.Thread(target=ask, args=(server.bootstrap,))
        asking.start()
        asking.join(60)
        first, second, *_ = server.accepted_s
    return second - first


@pytest.mark.nightly  # both clients ask until their API time-out, 20 s each
def test_a_connection_is_given_up_after_the_time_of_a_request(java_tool: JavaTool, settings: Path) -> None:
    def theirs(bootstrap: str) -> None:
        flags = ("--list", "--bootstrap-server", bootstrap, "--command-config", settings)
        java_tool("org.apache.kafka.tools.TopicCommand", *flags)

    def ours(bootstrap: str) -> None:
        with (
            Admin({"bootstrap.servers": bootstrap, **load_properties(settings)}) as admin,
            contextlib.suppress(ConnectError),
        ):
            admin.list_topics()

    for ask in (theirs, ours):
        assert REQUEST_S - 0.1 < pause_s(ask) < REQUEST_S + BUSY_S
