"""A Java program that runs beside a test, can be killed, and is started again when it fails."""

import contextlib
import os
import signal
import subprocess
from pathlib import Path
from typing import Final, Self

from tests.interop.kafka import JAVA_SOURCES, java_program

_FLAGS: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class JavaProgram:
    """One program: ``java MAIN_CLASS ARGUMENTS``, again and again until it ends well.

    Args:
        class_path: of :func:`tests.interop.kafka.jars`.
        main_class: its name.
        arguments: of the command line.
        output: gets what every run of it writes.
        heap: the JVM's limit, as in ``-Xmx``.
    """

    def __init__(
        self, class_path: str, main_class: str, *arguments: object, output: Path, heap: str = "128m"
    ) -> None:
        logging = f"-Dlog4j.configuration=file:{JAVA_SOURCES / 'log4j.properties'}"
        self._command = [java_program("java"), f"-Xmx{heap}", *_FLAGS, logging, "-cp", class_path, main_class]
        self._command += map(str, arguments)
        self._output = output
        self._process: subprocess.Popen[bytes] | None = None
        self.failures = 0
        """How often it ended by itself, and not well."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.kill()

    def start(self) -> None:
        """Run it once more."""
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )

    def bounce(self) -> None:
        """kill -9, and start it again at once."""
        self.kill()
        self.start()

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self, timeout_s: float = 60.0) -> None:
        """SIGTERM, and wait; kill -9 when it does not end."""
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGTERM)
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def is_done(self) -> bool:
        """Whether it has ended well; starts it again when it has failed."""
        assert self._process is not None
        code = self._process.poll()
        if code is None:
            return False
        if code:
            self.failures += 1
            self.start()
        return code == 0

    def text(self) -> str:
        """What it has written."""
        return self._output.read_text(errors="replace")
