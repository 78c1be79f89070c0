"""pk-* commands as processes that need not start Python first.

One process has imported what commands import, and forks for each: the fork has standard streams, a working directory
and an environment of its own, runs ``main()`` and ends as a program does. That takes a tenth of the time, which counts
where a test runs dozens of commands. What is about the start of a program itself, tests/e2e runs as a user does.
"""

import array
import gc
import importlib
import json
import os
import pkgutil
import random
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

_SIZE: Final = struct.Struct(">I")
_STATUS: Final = struct.Struct(">ii")
_PRELOADED: Final = (
    *("click", "msgpack", "yaml", "rich.console", "rich.table", "kazoo.client"),
    *(
        "pkafka.clients.admin.client",
        "pkafka.clients.consumer.consumer",
        "pkafka.clients.producer.producer",
        "pkafka.cli.kit.client_settings",
        "pkafka.cli.kit.kafka_command",
        "pkafka.cli.kit.profiles",
    ),
)


class ForkedCommands:
    """The process that forks; started with the first command."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._line: socket.socket | None = None

    def run(
        self,
        module: str,
        words: Sequence[str],
        *,
        stdin: str = "",
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
        timeout_s: float = 60,
    ) -> subprocess.CompletedProcess[str]:
        """What ``python -c "from pkafka.cli.MODULE import main; main()" WORDS`` would have done.

        Raises:
            subprocess.TimeoutExpired: it did not end in time, and was killed.
        """
        variables = dict(os.environ if environment is None else environment)
        call = json.dumps([module, [*words], variables, str(folder or Path.cwd())]).encode()
        with (
            self._lock,
            tempfile.TemporaryFile() as given,
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as err,
        ):
            given.write(stdin.encode())
            given.seek(0)
            line = self._connected()
            streams = array.array("i", [given.fileno(), out.fileno(), err.fileno()])
            line.sendmsg([_SIZE.pack(len(call))], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)])
            line.sendall(call)
            pid, _ = _STATUS.unpack(_read(line, _STATUS.size))
            line.settimeout(timeout_s)
            try:
                _, status = _STATUS.unpack(_read(line, _STATUS.size))
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                line.settimeout(None)
                _read(line, _STATUS.size)
                raise subprocess.TimeoutExpired([module, *words], timeout_s) from None
            line.settimeout(None)
            return subprocess.CompletedProcess([module, *words], status, _text(out), _text(err))

    def close(self) -> None:
        """End the process that forks."""
        with self._lock:
            if self._process is not None and self._line is not None:
                self._line.close()
                self._process.wait(30)
            self._process = self._line = None

    def _connected(self) -> socket.socket:
        if self._line is None:
            ours, theirs = socket.socketpair()
            command = [sys.executable, "-m", "tests.forked_commands", str(theirs.fileno())]
            root = Path(__file__).parents[1]
            self._process = subprocess.Popen(
                command,
                pass_fds=[theirs.fileno()],
                cwd=root,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
            theirs.close()
            self._line = ours
        return self._line


commands: Final = ForkedCommands()
"""Those of this process; tests/conftest.py ends it."""


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


def _read(line: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        chunk = line.recv(size - len(data))
        if not chunk:
            raise EOFError("the process that forks has ended")
        data += chunk
    return data


# -- the process that forks --------------------------------------------------------------------------------


def _serve(line: socket.socket) -> None:
    """Fork for each call; returns at the end of the line, or in a fork, whose command then is to be run."""
    for name in _PRELOADED:
        importlib.import_module(name)
    import pkafka.protocol.messages as messages

    for each in pkgutil.walk_packages(messages.__path__, f"{messages.__name__}."):
        importlib.import_module(each.name)
    gc.freeze()  # or each fork would look through all of it at its end, and copy it by that
    while True:
        streams = array.array("i")
        prefix, ancillary, _, _ = line.recvmsg(_SIZE.size, socket.CMSG_SPACE(3 * streams.itemsize))
        if not prefix:
            return
        for _, _, data in ancillary:
            streams.frombytes(data)
        (size,) = _SIZE.unpack(prefix)
        module, words, variables, folder = json.loads(_read(line, size))
        importlib.import_module(f"pkafka.cli.{module}")  # the next one finds it here
        pid = os.fork()
        if not pid:
            line.close()
            _become(module, words, variables, folder, streams)
            return
        for descriptor in streams:
            os.close(descriptor)
        line.sendall(_STATUS.pack(pid, 0))
        line.sendall(_STATUS.pack(pid, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])))


def _become(
    module: str, words: list[str], variables: dict[str, str], folder: str, streams: Sequence[int]
) -> None:
    """Make of this fork the program, and run it."""
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(variables)
    os.chdir(folder)
    sys.argv = ["-c", *words]
    random.seed()
    main: Any = importlib.import_module(f"pkafka.cli.{module}").main
    main()


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
