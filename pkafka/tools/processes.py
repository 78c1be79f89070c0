"""Finding the servers of this machine by their command lines, as Kafka's stop scripts do with ps and grep."""

import itertools
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

_PROC = Path("/proc")


def _command_lines() -> Iterator[tuple[int, int, list[str]]]:
    """(pid, parent, arguments) of every process of this user that can be seen."""
    for entry in _PROC.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            arguments = (entry / "cmdline").read_bytes().split(b"\0")[:-1]
            # The name of the program stands in brackets and may hold blanks: the fields follow the last bracket.
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            continue  # it ended meanwhile
        yield int(entry.name), parent, [argument.decode(errors="replace") for argument in arguments]


def _find(matches: Callable[[Sequence[str]], bool]) -> list[int]:
    found = {pid: parent for pid, parent, arguments in _command_lines() if matches(arguments)}
    found.pop(os.getpid(), None)
    # A broker is a family of processes with one command line; the signal is for its head.
    return sorted(pid for pid, parent in found.items() if parent not in found)


def find_brokers(*, node_id: int | None = None) -> list[int]:
    """The supervisors of the pkafka brokers that run on this machine.

    Args:
        node_id: only the broker with this id, as its command line says it.
    """
    return _find(
        lambda arguments: (
            any(
                argument.endswith("pk-server-start") or argument == "pkafka.cli.server_start"
                for argument in arguments[:4]
            )
            and (node_id is None or _node_id(arguments) == node_id)
        )
    )


def _node_id(arguments: Sequence[str]) -> int | None:
    """The broker id that a command line sets by an override or by its properties file."""
    texts = [following for word, following in itertools.pairwise(arguments) if word == "--override"]
    for argument in arguments:
        if argument.endswith(".properties"):
            try:
                texts = [*Path(argument).read_text(encoding="utf-8").splitlines(), *texts]
            except OSError:
                continue
    found = None
    for text in texts:
        key, _, value = text.partition("=")
        if key.strip() in ("broker.id", "node.id") and value.strip().isdigit():
            found = int(value)
    return found


def find_zookeepers() -> list[int]:
    """The ZooKeeper servers that run on this machine."""
    return _find(lambda arguments: "org.apache.zookeeper.server.quorum.QuorumPeerMain" in arguments)


def send_signal(pids: Sequence[int], name: str) -> None:
    """Send a signal, named as in ``kill -NAME``, to each process that still exists.

    Raises:
        ValueError: there is no such signal.
    """
    text = name.upper().removeprefix("SIG")
    try:
        number = signal.Signals(int(text)) if text.isdigit() else signal.Signals[f"SIG{text}"]
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
