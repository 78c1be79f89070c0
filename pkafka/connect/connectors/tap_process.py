"""A Singer tap as it runs: a child process whose lines are read, and that is never left behind."""

import contextlib
import logging
import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Final

from pkafka.connect.connectors import tap_guard
from pkafka.connect.errors import ConnectError

log = logging.getLogger(__name__)

LINE_MAX: Final = 64 * 1024 * 1024
"""The longest line in bytes: a tap that writes no ends of lines must not fill the memory."""
_READ: Final = 256 * 1024
GRACE_S: float = 3.0
"""How long a tap may take to end itself."""
_END_S: Final = 10.0


class TapProcess:
    """Runs a tap. For one thread.

    Args:
        name: of the tap, for the log.
        command: of the tap, without the options that name its files.
        files: by option, as ``--config``: what the file has that the option names.
        clock: seconds, for how long the tap says nothing.

    Raises:
        ConnectError: there is no such command, or no process can be made.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        files: Mapping[str, str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if shutil.which(command[0]) is None:
            raise ConnectError(f"There is no command {command[0]} that could be run as a tap")
        self._name = name
        self._clock = clock
        self._directory = _private_directory(name)
        guard = [sys.executable, "-I", "-S", tap_guard.__file__, str(self._directory), str(GRACE_S)]
        try:
            self._process = subprocess.Popen(
                [*guard, *command, *self._options(files)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            shutil.rmtree(self._directory, ignore_errors=True)
            raise ConnectError(f"The tap {name} cannot be run: {error.strerror}") from error
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._selector = selectors.DefaultSelector()
        self._unfinished: dict[IO[bytes], list[bytes]] = {self._process.stdout: [], self._process.stderr: []}
        """Pieces of a line that has no end yet."""
        for file in self._unfinished:
            os.set_blocking(file.fileno(), False)
            self._selector.register(file, selectors.EVENT_READ)
        self.silent_s = 0.0
        """How long the tap was waited for since it wrote last."""
        self.status: int | None = None
        """With which it ended; None: it runs, or not all that it wrote is read."""
        self.last_words = ""
        """The last line of its standard error."""

    def _options(self, files: Mapping[str, str]) -> list[str]:
        """Write the tap's files, and name them."""
        options = []
        for option, text in files.items():
            path = self._directory / f"{option.strip('-')}.json"
            path.write_text(text, encoding="utf-8")
            options += [option, str(path)]
        return options

    def read(self, timeout_s: float) -> list[bytes]:
        """The next lines of its standard output, without their ends; what it tells on the other one is logged.

        Args:
            timeout_s: to wait for some.

        Raises:
            ConnectError: a line is too long.
        """
        began_s = self._clock()
        if not self._selector.get_map():
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.status = self._process.wait(timeout_s)
            self.silent_s += self._clock() - began_s
            return []
        lines: list[bytes] = []
        found = self._selector.select(timeout_s)
        self.silent_s = 0.0 if found else self.silent_s + self._clock() - began_s
        for key, _events in found:
            file = key.fileobj
            assert not isinstance(file, int)
            new = self._lines(file)  # type: ignore[arg-type]  # one of the two that were registered
            if file is self._process.stdout:
                lines = new
            else:
                self._log(new)
        return lines

    def _lines(self, file: IO[bytes]) -> list[bytes]:
        pieces = self._unfinished[file]
        data = os.read(file.fileno(), _READ)
        if not data:
            self._selector.unregister(file)
            data = b"\n"
        first, *rest = data.split(b"\n")
        pieces.append(first)
        if sum(map(len, pieces)) > LINE_MAX:
            raise ConnectError(f"The tap {self._name} wrote a line of more than {LINE_MAX} bytes")
        if not rest:
            return []
        *whole, last = b"".join(pieces), *rest
        self._unfinished[file] = [last]
        return [each for each in whole if each.strip()]

    def _log(self, lines: Sequence[bytes]) -> None:
        for line in lines:
            self.last_words = line.decode("utf-8", "replace").strip()
            log.info("%s: %s", self._name, self.last_words)

    def end(self) -> None:
        """End it, if it runs, with all that it has started; its files are removed."""
        process = self._process
        assert process.stdin is not None
        process.stdin.close()  # which its guard takes for the word to end it
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            log.error("The guard of the tap %s does not end, and is killed", self._name)
            process.kill()
            process.wait()
        if process.returncode < 0:
            self._end_orphan()
        self._selector.close()
        for file in self._unfinished:
            file.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _end_orphan(self) -> None:
        """End the tap whose guard was killed."""
        with contextlib.suppress(OSError, ValueError):  # neither may be there
            os.killpg(int((self._directory / tap_guard.PID).read_text()), signal.SIGKILL)


def _private_directory(name: str) -> Path:
    """A new directory that nobody else can read."""
    try:
        return Path(tempfile.mkdtemp(prefix="pkafka-tap-"))
    except OSError as error:
        raise ConnectError(
            f"The tap {name} cannot have a directory for its files: {error.strerror}"
        ) from error
