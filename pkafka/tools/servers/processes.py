"""Servers that run on this machine, found by their command lines, and what a running one says about itself.

Kafka's stop scripts look for a word in the output of ps. Here a process is a server when the program that it runs is
one, and everything about it is read as the process itself sees it: relative paths in its own directory, through
/proc. What a container runs is not of this machine, though its processes can be seen from outside.
"""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from pkafka.errors import StorageError

_PROC = Path("/proc")
_BROKER_SCRIPT: Final = "pk-server-start"
_BROKER_MODULE: Final = "pkafka.cli.server_start"
_INTERPRETERS: Final = ("python", "pypy")
_FLAGS_WITH_VALUE: Final = "WX"


class Server(NamedTuple):
    """A server that runs."""

    pid: int
    arguments: tuple[str, ...]
    """What stands behind the name of its program."""
    directory: str | None
    """Where it runs; None when this user may not know."""

    @property
    def may_be_signalled(self) -> bool:
        """Whether this user may signal it; true of one that has just ended, too."""
        try:
            os.kill(self.pid, 0)
        except PermissionError:
            return False
        except ProcessLookupError:
            pass
        return True

    def read(self, path: str | os.PathLike[str]) -> bytes:
        """A file, by a path as the process would use it.

        Raises:
            OSError: it cannot be read.
        """
        home = _PROC / str(self.pid)
        relative = os.path.relpath(path, "/") if os.path.isabs(path) else path
        return (home / ("root" if os.path.isabs(path) else "cwd") / relative).read_bytes()

    def log_directories(self) -> list[str]:
        """The data directories that it has locked; none earlier in its start."""
        from pkafka.storage.log_directory import LOCK_FILE

        found = []
        try:
            descriptors = sorted((_PROC / str(self.pid) / "fd").iterdir(), key=lambda each: int(each.name))
        except OSError:
            return []
        for descriptor in descriptors:
            try:
                directory, _, name = str(descriptor.readlink()).rpartition("/")
            except OSError:
                continue  # it was closed meanwhile
            if name == LOCK_FILE:
                found.append(directory)
        return found

    def stored_broker_id(self) -> int | None:
        """The id that the data directories of a broker say it has; None before it has settled on one."""
        from pkafka.storage.broker_metadata import META_PROPERTIES_FILE, decode_broker_metadata

        for directory in self.log_directories():
            path = f"{directory}/{META_PROPERTIES_FILE}"
            try:
                metadata = decode_broker_metadata(self.read(path), path)
            except (OSError, StorageError):
                continue
            if metadata.broker_id is not None and metadata.broker_id >= 0:
                return metadata.broker_id
        return None


class _Process(NamedTuple):
    pid: int
    parent: int
    session: int
    words: tuple[str, ...]


def _processes() -> Iterator[_Process]:
    """Every process that can be seen and is not in another container.

    Raises:
        OSError: this system has no /proc.
    """
    ours = _namespace("self")
    for entry in _PROC.iterdir():
        if not (entry.name.isascii() and entry.name.isdecimal()):
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")[:-1]
            # The name of the program stands in brackets and may hold blanks: the fields follow the last bracket.
            fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
            parent, session = int(fields[1]), int(fields[3])
        except (OSError, ValueError, IndexError):
            continue  # it ended meanwhile
        if words and _namespace(entry.name) in (ours, None):
            yield _Process(int(entry.name), parent, session, tuple(map(os.fsdecode, words)))


def _namespace(pid: str) -> str | None:
    """The numbering of processes that it belongs to, of which each container has its own; None: it does not say."""
    try:
        return str((_PROC / pid / "ns" / "pid").readlink())
    except OSError:
        return None


def _find(arguments_of: Callable[[Sequence[str]], tuple[str, ...] | None]) -> list[Server]:
    found = {}
    for process in _processes():
        arguments = arguments_of(process.words)
        if arguments is not None and process.pid != os.getpid():
            found[process.pid] = process, arguments
    # A server is a family of processes with one command line; the signal is for its head. A daemon has a session of
    # its own; the process that waits for its start is no server.
    daemons = {pid for pid, (process, _) in found.items() if process.session == pid}
    waiting = {found[pid][0].parent for pid in daemons}
    return [
        Server(pid, arguments, _directory(pid))
        for pid, (process, arguments) in sorted(found.items())
        if (process.parent not in found or pid in daemons) and pid not in waiting
    ]


def _directory(pid: int) -> str | None:
    try:
        return str((_PROC / str(pid) / "cwd").readlink())
    except OSError:
        return None


def find_brokers() -> list[Server]:
    """The supervisors of the pkafka brokers that run on this machine, of every user.

    Raises:
        OSError: this system has no /proc.
    """
    return _find(_broker_arguments)


def _broker_arguments(words: Sequence[str]) -> tuple[str, ...] | None:
    program = os.path.basename(words[0])
    if program == _BROKER_SCRIPT:
        return tuple(words[1:])
    if not program.startswith(_INTERPRETERS):
        return None  # `man pk-server-start` is no broker
    return _arguments_of_program(words[1:], script=_BROKER_SCRIPT, module=_BROKER_MODULE)


def _arguments_of_program(words: Sequence[str], *, script: str, module: str) -> tuple[str, ...] | None:
    """What a command line of Python gives to this script or module; None when it runs something else."""
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-") or word == "-":
            return tuple(rest) if os.path.basename(word) == script else None
        if word.startswith("--"):
            continue
        for position, letter in enumerate(word[1:], start=2):
            if letter not in _FLAGS_WITH_VALUE + "cm":
                continue
            value = word[position:] or (rest.pop(0) if rest else "")
            if letter in _FLAGS_WITH_VALUE:
                break
            return tuple(rest) if letter == "m" and value == module else None
    return None


def find_zookeepers() -> list[Server]:
    """The ZooKeeper servers that run on this machine, of every user.

    Raises:
        OSError: this system has no /proc.
    """
    return _find(_zookeeper_arguments)


def _zookeeper_arguments(words: Sequence[str]) -> tuple[str, ...] | None:
    from pkafka.tools.zookeeper.server import MAIN_CLASS

    if "java" not in os.path.basename(words[0]) or MAIN_CLASS not in words:
        return None
    return tuple(words[words.index(MAIN_CLASS) + 1 :])


def send_signal(pids: Sequence[int], name: str) -> None:
    """Send a signal, named as in ``kill -s NAME``, to each process that still exists.

    Raises:
        ValueError: there is no such signal.
    """
    text = name.upper().removeprefix("SIG")
    try:
        number = signal.Signals(int(text)) if text.isdecimal() else signal.Signals[f"SIG{text}"]
    except (KeyError, ValueError):
        raise ValueError(f"there is no signal {name}") from None
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def is_running(pid: int, argument: str) -> bool:
    """Whether process ``pid`` runs and ``argument`` is part of its command line.

    Where the system has no /proc the command line cannot be seen and is not compared.
    """
    if _PROC.joinpath("self").exists():
        try:
            # A process that ended and was not waited for yet has an empty one.
            return argument.encode() in _PROC.joinpath(str(pid), "cmdline").read_bytes()
        except OSError:
            return False
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True
