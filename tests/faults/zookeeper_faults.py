"""What can happen to a ZooKeeper and its sessions: it is killed and comes back, and it ends a session."""

import contextlib
import os
import shutil
import socket
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pkafka.tools.zookeeper.server import server_command, wait_until_serving
from tests.sockets import free_port

_SUPER_SECRET: Final = 0xB3415C00
"""ZooKeeperServer makes a session's password of its id and this."""
_CLOSE_SESSION: Final = -11
_SMALL: Final = {"KAFKA_HEAP_OPTS": "-Xmx128m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto"}


class MortalZooKeeper:
    """A server of its own that can be killed, and started again with what it knew.

    Args:
        directory: for its data; it exists.
        tick_time_ms: sessions are 2 to 20 ticks long.
    """

    def __init__(self, directory: Path, *, tick_time_ms: int = 500) -> None:
        self.port = free_port()
        self.connect = f"127.0.0.1:{self.port}"
        self._properties = directory / "zookeeper.properties"
        self._log = directory / "zookeeper.log"
        # A kill leaves what the kernel was given, so nothing has to be flushed.
        self._properties.write_text(
            f"dataDir={directory / 'data'}\nclientPort={self.port}\nclientPortAddress=127.0.0.1\n"
            f"tickTime={tick_time_ms}\nmaxClientCnxns=0\nadmin.enableServer=false\n"
            "forceSync=no\npreAllocSize=1024\n"
        )
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start, and wait until sessions are taken."""
        command = server_command(self._properties, environment={**os.environ, **_SMALL})
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        wait_until_serving(self._process, self.port, timeout_s=30.0)

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)


@contextlib.contextmanager
def mortal_zookeeper() -> Iterator[MortalZooKeeper]:
    """A started one, gone on leaving."""
    directory = Path(tempfile.mkdtemp(prefix="pkafka-zookeeper-"))
    try:
        server = MortalZooKeeper(directory)
        try:
            server.start()
            yield server
        finally:
            server.kill()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def expire_session(address: tuple[str, int], session_id: int) -> None:
    """Have the server end a session, as when nothing was heard of it: somebody resumes it, and closes it.

    Its owner, whose connection that takes, may resume it in between; then it is taken again.
    """
    for attempt in range(10):
        is_there, is_closed = _closed(address, session_id)
        assert is_there or attempt, "there is no such session"
        if is_closed or not is_there:
            return
    raise AssertionError("the session could not be taken over")


def _closed(address: tuple[str, int], session_id: int) -> tuple[bool, bool]:
    """Whether there is such a session, and whether the server says that it closed it."""
    password = _random_bytes(session_id ^ _SUPER_SECRET, 16)
    connect = struct.pack(">iqiqi", 0, 0, 4000, session_id, len(password)) + password + b"\0"
    close = struct.pack(">ii", 1, _CLOSE_SESSION)
    with socket.create_connection(address, timeout=10) as connection:
        for frame in (connect, close):
            connection.sendall(struct.pack(">i", len(frame)) + frame)
        with connection.makefile("rb") as answers:
            head = answers.read(4)
            if not head:
                return True, False
            _, granted_ms, found = struct.unpack(">iiq", answers.read(struct.unpack(">i", head)[0])[:16])
            if not granted_ms:
                return False, False
            assert found == session_id
            return True, bool(answers.read())  # of the close; then the server closes the connection


def _random_bytes(seed: int, count: int) -> bytes:
    """As ``java.util.Random(seed).nextBytes()`` fills them."""
    mask = (1 << 48) - 1
    state = (seed ^ 0x5DEECE66D) & mask
    found = b""
    while len(found) < count:
        state = (state * 0x5DEECE66D + 0xB) & mask
        found += (state >> 16).to_bytes(4, "little")
    return found[:count]
