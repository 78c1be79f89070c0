"""A server that accepts connections and says nothing, as a broker that hangs does."""

import contextlib
import socket
import threading
import time
from typing import Self


class MuteServer:
    """See the module. ``accepted_s`` says when each connection came, on the monotonic clock."""

    def __init__(self) -> None:
        self.accepted_s: list[float] = []
        self._open: list[socket.socket] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.bootstrap = f"127.0.0.1:{self._server.getsockname()[1]}"
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self._open.append(self._server.accept()[0])
                self.accepted_s.append(time.monotonic())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join(5)
        for each in self._open:
            each.close()
