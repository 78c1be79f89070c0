"""ZooKeeper's shell without its input and output: the verbs, and what stays between them."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pkafka.coordination.administration import KeeperCode, KeeperError, Nodes, NotServedError
from pkafka.errors import ConfigError, PkafkaError
from pkafka.tools.zookeeper.verbs import VERBS
from pkafka.tools.zookeeper.words import Answer, Verb, VerbUsageError, Words, read_words, split_line

if TYPE_CHECKING:
    import ssl

_HISTORY_SHOWN: Final = 11
_OF_THE_SHELL: Final = {
    "close": "close ",
    "connect": "connect host:port",
    "history": "history ",
    "printwatches": "printwatches on|off",
    "quit": "quit ",
    "redo": "redo cmdno",
}

VERB_NAMES: Final = sorted([*VERBS, *_OF_THE_SHELL])

USAGE: Final = [
    "ZooKeeper -server host:port [-zk-tls-config-file <file>] cmd args",
    *(
        f"\t{usage}"
        for _, usage in sorted(
            {**{name: verb.usage for name, verb in VERBS.items()}, **_OF_THE_SHELL}.items()
        )
    ),
]
"""What ZooKeeper's shell says to a verb that it does not know."""


class UnknownVerbError(PkafkaError):
    """There is no such verb."""


class Leave(PkafkaError):
    """The verb ``quit``."""


def explain(error: KeeperError) -> str:
    """A refusal in the shell's words."""
    said = _REFUSALS.get(KeeperCode(error.code)) if error.code in set(KeeperCode) else None
    return str(error) if said is None else said.format(error.path or "null")


_REFUSALS: Final = {
    KeeperCode.NO_NODE: "Node does not exist: {}",
    KeeperCode.NO_CHILDREN_FOR_EPHEMERALS: "Ephemerals cannot have children: {}",
    KeeperCode.NODE_EXISTS: "Node already exists: {}",
    KeeperCode.NOT_EMPTY: "Node not empty: {}",
    KeeperCode.NOT_READ_ONLY: "Not a read-only call: {}",
    KeeperCode.INVALID_ACL: "Acl is not valid : {}",
    KeeperCode.NO_AUTH: "Insufficient permission : {}",
    KeeperCode.BAD_ARGUMENTS: "Arguments are not valid : {}",
    KeeperCode.BAD_VERSION: "version No is not valid : {}",
    KeeperCode.QUOTA_EXCEEDED: "Quota has exceeded : {}",
}


def understood(words: Sequence[str]) -> tuple[Verb, Words]:
    """A verb that asks the store, and its arguments.

    Raises:
        UnknownVerbError, VerbUsageError: see there.
    """
    name, *arguments = words
    verb = VERBS.get(name)
    if verb is None:
        raise UnknownVerbError(f"Command not found: Command not found {name}")
    return verb, Words({}, arguments) if name == "reconfig" else read_words(verb, arguments)


class Shell:
    """The verbs, and what stays between them: the connection, the history.

    Args:
        connect: opens nodes; gets ``host:port/chroot``, or None for where the shell was started.
    """

    def __init__(self, connect: Callable[[str | None], Nodes]) -> None:
        self._connect = connect
        self._nodes: Nodes | None = None
        self.history: list[str] = []
        self.print_watches = True

    @property
    def nodes(self) -> Nodes | None:
        """What the verbs ask; None before the first connection and after ``close``."""
        return self._nodes

    def check(self, words: Sequence[str]) -> None:
        """Refuse words that no store would make sense of; raises as :func:`understood`."""
        if words[0] not in _OF_THE_SHELL:
            understood(words)

    def open(self, server: str | None = None) -> None:
        """Connect, and leave what was connected before."""
        former, self._nodes = self._nodes, None
        if former is not None:
            former.close()
        self._nodes = self._connect(server)

    def close(self) -> None:
        """Leave. Idempotent."""
        former, self._nodes = self._nodes, None
        if former is not None:
            former.close()

    def run_line(self, line: str) -> Answer:
        """Do what a line says, and remember it. See :meth:`run` for what it raises."""
        self.history.append(line)
        return self.run(split_line(line) or [""])

    def run(self, words: Sequence[str]) -> Answer:
        """Do what the words say.

        Raises:
            UnknownVerbError, VerbUsageError, Leave: see there.
            KeeperError, NotServedError: the store refused.
            QuotaError, QuotaTooLowError, NoQuotaError, DeletionIncompleteError: in the words of ZooKeeper's shell.
        """
        name, *arguments = words
        if name in _OF_THE_SHELL:
            return self._run_own(name, arguments)
        verb, read = understood(words)
        return Answer(["Not connected"]) if self._nodes is None else verb.run(self._nodes, read)

    def _run_own(self, name: str, arguments: Sequence[str]) -> Answer:
        match name:
            case "quit":
                raise Leave
            case "close":
                self.close()
            case "connect":
                self.open(arguments[0] if arguments else None)
            case "history":
                first = max(0, len(self.history) - _HISTORY_SHOWN)
                return Answer([f"{at} - {self.history[at]}" for at in range(first, len(self.history))])
            case "redo":
                return self._redo(arguments)
            case _:
                if not arguments:
                    return Answer([f"printwatches is {'on' if self.print_watches else 'off'}"])
                self.print_watches = arguments[0] == "on"
        return Answer()

    def _redo(self, arguments: Sequence[str]) -> Answer:
        if not arguments:
            return Answer()
        number = arguments[0]
        # The last line is this very one: doing it again would never end.
        if not number.isdecimal() or int(number) >= len(self.history) - 1:
            raise VerbUsageError("Command index out of range")
        line = self.history[int(number)]
        if split_line(line)[:1] == ["redo"]:
            raise VerbUsageError("No redoing redos")
        self.history[-1] = line
        return self.run(split_line(line) or [""])


def tls_settings(properties: Mapping[str, str], *, source: str) -> "Callable[[], ssl.SSLContext] | None":
    """What ``-zk-tls-config-file`` says, as what makes the context of a connection; None when it asks for no TLS.

    Args:
        properties: of the file, ``zookeeper.ssl.*`` as for a broker.
        source: the file, for messages.

    Raises:
        NotServedError: a store cannot be read, or the keys contradict each other.
    """
    from pkafka.security.zookeeper_tls import zookeeper_tls

    keys = {f"zookeeper.{key.removeprefix('zookeeper.').strip()}": value for key, value in properties.items()}
    try:
        return zookeeper_tls(keys)
    except ConfigError as error:
        raise NotServedError("", f"{source}: {error}") from None
