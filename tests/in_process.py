"""Running a pk-* command in this process as a shell would, without letting it do anything to the machine.

Python's audit events tell what the command is about to do. What would reach beyond the test is refused as a system
refuses it (no permission, no more processes, a busy port): processes are neither started nor signalled, nothing is
written outside the command's folder, and connections go nowhere but to the ports allowed.
"""

import contextlib
import errno
import importlib
import io
import logging
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

# Ctrl-C in the middle of an import leaves half a package behind. A process that ends does not care; this one goes on,
# so what commands import late is whole before the first one runs.
for _late in ("yaml", "kazoo.client", "kazoo.handlers.threading", "tomllib", "rich.live"):
    importlib.import_module(_late)

UNREADABLE: Final = "unreadable"
"""A file whose name ends so cannot be read, not by root either."""

_WRITING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_STARTS: Final = frozenset(
    {"os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.spawn", "os.system", "subprocess.Popen"}
)
_CHANGES: Final = frozenset(
    {
        *("os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.link", "os.symlink", "os.truncate"),
        *("os.chmod", "os.chown", "os.utime", "shutil.rmtree", "shutil.copyfile", "sqlite3.connect"),
    }
)
_THIS_MACHINE: Final = frozenset({None, "", "localhost", "127.0.0.1", "::1", "0.0.0.0"})
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)
_OWN_VARIABLES: Final = (
    *("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"),
    *("PK_PROFILE", "PK_COMPAT", "PK_BOOTSTRAP_SERVER"),
)
_GRACE_S: Final = 60.0
"""How long a command may take to end after Ctrl-C, and a thread of it after its end: a machine may stand still."""
_PRESSED_AGAIN_S: Final = 2.5


class Outcome(NamedTuple):
    """What a command did.

    Args:
        status: what it ended with.
        was_interrupted: whether it had to be told to end, by Ctrl-C.
        complaints: what no command may do, whatever it is given.
        error: what came out of it in the place of a status.
    """

    status: object
    out: bytes
    err: str
    was_interrupted: bool
    complaints: Sequence[str]
    error: BaseException | None


def run(
    command: Callable[[list[str]], object],
    words: Sequence[str],
    *,
    folder: Path,
    stdin: bytes = b"",
    environment: Mapping[str, str] | None = None,
    ports: Collection[int] = (),
    seconds: float,
) -> Outcome:
    """Run a command with these words, in a folder of its own.

    Args:
        ports: the ports of this machine that it may connect to; nobody listens on any other.
        seconds: how long it may take before Ctrl-C comes.
    """
    complaints: list[str] = []
    threads = set(threading.enumerate())
    status: object = None
    raised: BaseException | None = None
    with _streams(stdin) as (out, err), _surroundings(folder, environment or {}, complaints):
        with _guard.watching(folder, words, ports, complaints):
            # Ctrl-C may come when the command has just ended.
            with contextlib.suppress(KeyboardInterrupt), _ctrl_c_after(seconds, complaints) as interrupted:
                try:
                    command([*words])
                    complaints.append("main() came back")
                except SystemExit as leaving:
                    status = leaving.code
                except BaseException as error:  # noqa: BLE001 - whatever it is, that it is
                    complaints.append(f"a traceback: {type(error).__name__}: {error}")
                    raised = error
            if interrupted.is_set() and status is None and raised is None:
                status = 128 + signal.SIGINT
            complaints += _left(threads)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(ValueError, OSError):
                stream.flush()
        printed, said = out(), err()
    if b"Traceback (most recent call last)" in printed + said:
        complaints.append("a traceback is printed")
    return Outcome(status, printed, said.decode(errors="replace"), interrupted.is_set(), complaints, raised)


class _Guard:
    """Refuses what a command may not do, while there is a command."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._words: Sequence[str] = ()
        self._ports: Collection[int] = ()
        self._complaints: list[str] = []
        self._is_installed = False

    @contextlib.contextmanager
    def watching(
        self, folder: Path, words: Sequence[str], ports: Collection[int], complaints: list[str]
    ) -> Iterator[None]:
        """Refuse until the block ends, and complain of what nobody asked for."""
        if not self._is_installed:  # and never gone again
            sys.addaudithook(self._look)
            self._is_installed = True
        self._words, self._ports, self._complaints = words, ports, complaints
        self._folder = folder
        try:
            yield
        finally:
            self._folder = None

    def _look(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._folder is None:
            return
        if event == "open":
            self._look_at_open(*arguments)
        elif event in _CHANGES:
            self._look_at_change(arguments[0])
        elif event in _STARTS:
            raise _refusal(BlockingIOError, errno.EAGAIN)
        elif event in ("os.kill", "os.killpg") and arguments[1] != 0:
            raise _refusal(PermissionError, errno.EPERM)
        elif event.startswith("socket."):
            self._look_at_network(event, arguments)
        elif event == "ctypes.dlopen":
            raise _refusal(OSError, errno.EACCES)

    def _look_at_network(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "socket.bind":
            raise _refusal(OSError, errno.EADDRINUSE)
        if event == "socket.connect":
            address = arguments[1]
            if isinstance(address, tuple) and address[1] not in self._ports:
                raise _refusal(ConnectionRefusedError, errno.ECONNREFUSED)
        elif event == "socket.getaddrinfo":
            host = arguments[0]
            name = host.decode(errors="replace") if isinstance(host, bytes) else host
            if name not in _THIS_MACHINE:
                raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    def _look_at_open(self, path: object, _mode: object, flags: object) -> None:
        if isinstance(path, str | bytes) and os.fsdecode(path).endswith(UNREADABLE):
            raise _refusal(PermissionError, errno.EACCES, os.fsdecode(path))
        if isinstance(flags, int) and flags & _WRITING:
            self._look_at_change(path)

    def _look_at_change(self, path: object) -> None:
        if not isinstance(path, str | bytes | os.PathLike):
            return  # a descriptor, which was looked at when it was opened
        given = os.fsdecode(path)
        name = os.path.abspath(given)
        assert self._folder is not None
        if name == os.devnull or "__pycache__" in name or Path(name).is_relative_to(self._folder):
            return
        if not any(given in word or name in word for word in self._words):
            self._complaints.append(f"it writes {name}, which nobody named")
        raise _refusal(PermissionError, errno.EACCES, name)


_guard: Final = _Guard()


def _refusal(kind: type[OSError], code: int, *path: str) -> OSError:
    return kind(code, os.strerror(code), *path)


def _left(before: set[threading.Thread]) -> list[str]:
    """Threads that would keep the process."""
    deadline = time.monotonic() + _GRACE_S
    for thread in set(threading.enumerate()) - before:
        if not thread.daemon:
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                return [f"the thread {thread.name} keeps the process"]
    return []


@contextlib.contextmanager
def _streams(stdin: bytes) -> Iterator[tuple[Callable[[], bytes], Callable[[], bytes]]]:
    """Standard streams as a shell redirects them: files, with encodings as strict as Python's own."""
    before = sys.stdin, sys.stdout, sys.stderr
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(stdin)
        given.seek(0)
        sys.stdin = _text(given, "rb", "strict")
        sys.stdout = _text(out, "wb", "strict")
        sys.stderr = _text(err, "wb", "backslashreplace")
        try:
            yield lambda: _content(out), lambda: _content(err)
        finally:
            sys.stdin, sys.stdout, sys.stderr = before


def _text(file: IO[bytes], mode: str, errors: str) -> io.TextIOWrapper:
    raw = io.FileIO(file.fileno(), mode, closefd=False)
    buffer = io.BufferedReader(raw) if mode == "rb" else io.BufferedWriter(raw)
    return io.TextIOWrapper(buffer, encoding="utf-8", errors=errors)


def _content(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


@contextlib.contextmanager
def _surroundings(folder: Path, environment: Mapping[str, str], complaints: list[str]) -> Iterator[None]:
    """Working directory, environment, signals, loggers and hooks are after the command what they were before."""
    folder_before, variables = os.getcwd(), dict(os.environ)
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    loggers = [
        (each, each.level, [*each.handlers], each.propagate)
        for each in (logging.root, *logging.Logger.manager.loggerDict.values())
        if isinstance(each, logging.Logger)
    ]
    hooks = sys.unraisablehook, threading.excepthook
    temporary, tempfile.tempdir = tempfile.tempdir, None
    for name in _OWN_VARIABLES:
        os.environ.pop(name, None)
    os.environ.update(HOME=str(folder), TMPDIR=str(folder), **environment)

    def thread_ended(arguments: threading.ExceptHookArgs) -> None:
        complaints.append(f"a thread ends with {arguments.exc_type.__name__}: {arguments.exc_value}")

    def unraisable(arguments: "sys.UnraisableHookArgs") -> None:
        # Ctrl-C came where nobody could take it, and another one follows; or it left something open.
        if arguments.exc_type not in (KeyboardInterrupt, ResourceWarning):
            complaints.append(f"unseen: {arguments.exc_type.__name__}: {arguments.exc_value}")

    sys.unraisablehook, threading.excepthook = unraisable, thread_ended
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(folder_before)
        os.environ.clear()
        os.environ.update(variables)
        tempfile.tempdir = temporary
        sys.unraisablehook, threading.excepthook = hooks
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for logger, level, attached, propagate in loggers:
            logger.setLevel(level)
            logger.handlers[:] = attached
            logger.propagate = propagate


@contextlib.contextmanager
def _ctrl_c_after(seconds: float, complaints: list[str]) -> Iterator[threading.Event]:
    """Press Ctrl-C after so long, and again until the block ends, as a person does."""
    ended, pressed = threading.Event(), threading.Event()
    main = threading.main_thread().ident
    assert main == threading.get_ident()
    lock = threading.Lock()

    def press() -> None:
        wait, waited = seconds, 0.0
        while not ended.wait(wait):
            with lock:
                if ended.is_set():
                    return
                if pressed.is_set():
                    waited += wait
                if waited >= _GRACE_S:
                    complaints.append(f"it does not end {waited:g} s after Ctrl-C")
                pressed.set()
                signal.pthread_kill(main, signal.SIGINT)
            wait = _PRESSED_AGAIN_S

    watchdog = threading.Thread(target=press, daemon=True)
    watchdog.start()
    try:
        yield pressed
    finally:
        while watchdog.is_alive():
            with contextlib.suppress(KeyboardInterrupt):
                with lock:
                    ended.set()
                watchdog.join()
        with contextlib.suppress(KeyboardInterrupt):
            time.sleep(0)  # one may be on its way
