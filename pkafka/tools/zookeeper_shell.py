"""The verbs of ZooKeeper's shell: words in, answers out; nothing is printed here.

Words, flags and texts are those of org.apache.zookeeper.ZooKeeperMain 3.8, which Apache Kafka 3.9's zookeeper-shell
runs. Lines of an answer go to standard output, remarks to standard error, as they do there.
"""

import base64
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pkafka
from pkafka.coordination.administration import (
    EVERYBODY,
    Acl,
    AddWatchMode,
    CreateMode,
    KeeperCode,
    KeeperError,
    Nodes,
    NotServedError,
    Permission,
    WatcherType,
)
from pkafka.coordination.store import ANY_VERSION, Stat
from pkafka.errors import PkafkaError
from pkafka.tools import zookeeper_quota

ZOOKEEPER_VERSION: Final = "3.8.4"
_DELETE_BATCH: Final = 1000
_HISTORY_SHOWN: Final = 11
_LETTERS: Final = {
    "c": Permission.CREATE,
    "d": Permission.DELETE,
    "r": Permission.READ,
    "w": Permission.WRITE,
    "a": Permission.ADMIN,
}
# A word: without quotes up to the next space, or anything between quotes.
_WORD: Final = re.compile(r"""\s*([^"']\S*|"[^"]*"|'[^']*')\s*""")


class UnknownVerbError(PkafkaError):
    """There is no such verb."""


class VerbUsageError(PkafkaError):
    """A verb is not used like that; the text is its usage, or what is wrong with an argument."""


class DeletionIncompleteError(PkafkaError):
    """Some nodes of a subtree are still there."""


class Leave(PkafkaError):
    """The verb ``quit``."""


class Answer(NamedTuple):
    """What a verb has to say.

    Args:
        lines: ZooKeeper's text.
        remarks: what ZooKeeper writes to standard error.
        name, rows: the same as data, where it is worth it.
    """

    lines: Sequence[str] = ()
    remarks: Sequence[str] = ()
    name: str = ""
    rows: Sequence[Mapping[str, object]] = ()


class Words(NamedTuple):
    """The arguments of a verb: flags, a switch has an empty text, and what else there is."""

    flags: Mapping[str, str]
    rest: Sequence[str]

    def version(self) -> int:
        """The number of -v; -1, which is any, without it."""
        return self.integer("v", ANY_VERSION)

    def integer(self, flag: str, otherwise: int) -> int:
        """The number of a flag."""
        text = self.flags.get(flag)
        if text is None:
            return otherwise
        try:
            return int(text)
        except ValueError:
            raise VerbUsageError(f"-{flag} needs a number, not {text!r}") from None

    def path(self, position: int = 0) -> str:
        """An argument that is a path."""
        return checked_path(self.rest[position])


class Verb(NamedTuple):
    """One verb.

    Args:
        usage: what help says after its name.
        run: does it.
        switches, valued: letters of flags without and with a value.
        least: how many arguments it needs beside them.
    """

    usage: str
    run: Callable[[Nodes, Words], Answer]
    switches: str = ""
    valued: str = ""
    least: int = 1


def split_line(line: str) -> list[str]:
    """Words of a line; quotes keep spaces together."""
    words = [match[1] for match in _WORD.finditer(line)]
    return [
        word[1:-1] if word[:1] in "'\"" and len(word) > 1 and word[0] == word[-1] else word for word in words
    ]


def read_words(verb: Verb, words: Sequence[str]) -> Words:
    """Tell flags from arguments; letters may stand together, and flags anywhere.

    Raises:
        VerbUsageError: a flag is unknown or has no value, or arguments are missing.
    """
    flags: dict[str, str] = {}
    rest: list[str] = []
    left = iter(words)
    for word in left:
        if len(word) < 2 or word[0] != "-" or word[1:].isdigit():
            rest.append(word)
            continue
        letters = word.lstrip("-")
        for place, letter in enumerate(letters):
            if letter in verb.valued:
                value = letters[place + 1 :] or next(left, None)
                if value is None:
                    raise VerbUsageError(f"Missing argument for option: {letter}")
                flags[letter] = value
                break
            if letter not in verb.switches:
                raise VerbUsageError(f"Unrecognized option: {word}")
            flags[letter] = ""
    if len(rest) < verb.least:
        raise VerbUsageError(verb.usage)
    return Words(flags, rest)


def checked_path(path: str) -> str:
    """A path that ZooKeeper takes.

    Raises:
        VerbUsageError: in its words.
    """
    if not path:
        raise VerbUsageError("Path length must be > 0")
    if not path.startswith("/"):
        raise VerbUsageError("Path must start with / character")
    if path == "/":
        return path
    if path.endswith("/"):
        raise VerbUsageError("Path must not end with / character")
    parts = path[1:].split("/")
    if "" in parts:
        raise VerbUsageError(f'Invalid path string "{path}" caused by empty node name specified')
    if "." in parts or ".." in parts:
        raise VerbUsageError(f'Invalid path string "{path}" caused by relative paths not allowed')
    return path


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


def stat_lines(stat: Stat) -> list[str]:
    """A stat as the shell shows it, with times of this machine's zone."""
    return [
        f"cZxid = {_hexadecimal(stat.czxid)}",
        f"ctime = {_date(stat.ctime_ms)}",
        f"mZxid = {_hexadecimal(stat.mzxid)}",
        f"mtime = {_date(stat.mtime_ms)}",
        f"pZxid = {_hexadecimal(stat.pzxid)}",
        f"cversion = {stat.cversion}",
        f"dataVersion = {stat.version}",
        f"aclVersion = {stat.aversion}",
        f"ephemeralOwner = {_hexadecimal(stat.ephemeral_owner)}",
        f"dataLength = {stat.data_length}",
        f"numChildren = {stat.num_children}",
    ]


def _stat_row(path: str, stat: Stat) -> dict[str, object]:
    return {
        "path": path,
        "czxid": stat.czxid,
        "ctime": stat.ctime_ms,
        "mzxid": stat.mzxid,
        "mtime": stat.mtime_ms,
        "pzxid": stat.pzxid,
        "cversion": stat.cversion,
        "data_version": stat.version,
        "acl_version": stat.aversion,
        "ephemeral_owner": stat.ephemeral_owner,
        "data_length": stat.data_length,
        "num_children": stat.num_children,
    }


def _hexadecimal(number: int) -> str:
    return f"0x{number & 0xFFFFFFFFFFFFFFFF:x}"


def _date(milliseconds: int) -> str:
    return time.strftime("%a %b %d %H:%M:%S %Z %Y", time.localtime(milliseconds / 1000))


def _listed(names: Sequence[str]) -> str:
    return f"[{', '.join(names)}]"


def _child(path: str, name: str) -> str:
    return f"/{name}" if path == "/" else f"{path}/{name}"


# -- reading -----------------------------------------------------------------------------------------------


def _ls(nodes: Nodes, words: Words) -> Answer:
    path = words.path()
    if "R" in words.flags:
        paths = _existing_subtree(nodes, path)
        return Answer(paths, (), "nodes", [{"path": each} for each in paths])
    names, stat = nodes.children(path, watch=_wants_watch(words))
    names.sort()
    lines = [_listed(names), *(stat_lines(stat) if "s" in words.flags else ())]
    return Answer(lines, (), "nodes", [{"path": _child(path, name)} for name in names])


def _subtree(nodes: Nodes, path: str) -> Iterator[str]:
    """A node and all below it, each before what is below it; what vanishes meanwhile is left out."""
    try:
        names, _ = nodes.children(path)
    except KeeperError as error:
        if error.code != KeeperCode.NO_NODE:
            raise
        return
    yield path
    for name in sorted(names):
        yield from _subtree(nodes, _child(path, name))


def _get(nodes: Nodes, words: Words) -> Answer:
    path = words.path()
    data, stat = nodes.get(path, watch=_wants_watch(words))
    text = "null" if data is None else data.decode(errors="replace")
    lines = [text, *(stat_lines(stat) if "s" in words.flags else ())]
    return Answer(lines, (), "nodes", [{**_stat_row(path, stat), **_data_row(data)}])


def _data_row(data: bytes | None) -> dict[str, object]:
    """Text stays text; other bytes become base64, and the row says so."""
    try:
        return {"data": None if data is None else data.decode(), "encoding": "utf-8"}
    except UnicodeDecodeError:
        return {"data": base64.b64encode(data or b"").decode(), "encoding": "base64"}


def _stat(nodes: Nodes, words: Words) -> Answer:
    path = words.path()
    found = nodes.exists(path, watch=_wants_watch(words))
    if found is None:
        raise KeeperError(KeeperCode.NO_NODE, path)
    return Answer(stat_lines(found), (), "nodes", [_stat_row(path, found)])


def _wants_watch(words: Words) -> bool:
    return "w" in words.flags or len(words.rest) > 1  # the older way: any second argument


def _get_acl(nodes: Nodes, words: Words) -> Answer:
    acls, stat = nodes.get_acl(words.path())
    lines = [line for each in acls for line in (f"'{each.scheme},'{each.id}", f": {perms_text(each.perms)}")]
    rows = [{"scheme": each.scheme, "id": each.id, "perms": perms_text(each.perms)} for each in acls]
    return Answer([*lines, *(stat_lines(stat) if "s" in words.flags else ())], (), "acl", rows)


def perms_text(perms: Permission) -> str:
    """Letters of permissions, in ZooKeeper's order."""
    return "".join(letter for letter, bit in _LETTERS.items() if perms & bit)


def parse_acls(text: str) -> list[Acl]:
    """``scheme:id:perms,scheme:id:perms``; an id may have colons.

    Raises:
        VerbUsageError: one of them has not that form, or knows another letter than cdrwa.
    """
    acls = []
    for item in text.split(","):
        scheme, _, rest = item.partition(":")
        identity, colon, letters = rest.rpartition(":")
        if not colon:
            raise VerbUsageError(f"{item} does not have the form scheme:id:perm")
        perms = Permission(0)
        for letter in letters:
            if letter not in _LETTERS:
                raise VerbUsageError(f"Unknown perm type: {letter}")
            perms |= _LETTERS[letter]
        acls.append(Acl(perms, scheme, identity))
    return acls


def _get_ephemerals(nodes: Nodes, words: Words) -> Answer:
    found = nodes.ephemerals(words.path() if words.rest else "/")
    return Answer([_listed(found)], (), "nodes", [{"path": path} for path in found])


def _get_all_children_number(nodes: Nodes, words: Words) -> Answer:
    path = words.path()
    number = nodes.all_children_number(path)
    return Answer([str(number)], (), "nodes", [{"path": path, "all_children_number": number}])


def _whoami(nodes: Nodes, words: Words) -> Answer:
    known = nodes.whoami()
    lines = ["Auth scheme: User", *(f"{each.scheme}: {each.user}" for each in known)]
    return Answer(lines, (), "clients", [each._asdict() for each in known])


def _version(nodes: Nodes, words: Words) -> Answer:
    return Answer([f"ZooKeeper CLI version: {ZOOKEEPER_VERSION} (pkafka {pkafka.__version__})"])


def _config(nodes: Nodes, words: Words) -> Answer:
    data, stat = nodes.config(watch="w" in words.flags)
    text = (data or b"").decode(errors="replace")
    lines = [client_config(text) if "c" in words.flags else text]
    return Answer([*lines, *(stat_lines(stat) if "s" in words.flags else ())])


def client_config(text: str) -> str:
    """The version of an ensemble's configuration and where its members serve clients."""
    version, clients = "", []
    for line in text.splitlines():
        key, _, value = line.partition("=")
        if key == "version":
            version = value
        elif key.startswith("server.") and ";" in value:
            address = value.rpartition(";")[2]
            clients.append(address if ":" in address else f"0.0.0.0:{address}")
    return f"{version} {','.join(clients)}"


# -- changing ----------------------------------------------------------------------------------------------


def _create(nodes: Nodes, words: Words) -> Answer:
    flags = words.flags
    ttl_ms = words.integer("t", -1)
    if "c" in flags and ("e" in flags or "s" in flags):
        raise VerbUsageError(
            "-c cannot be combined with -s or -e. Containers cannot be ephemeral or sequential."
        )
    if "t" in flags and ("e" in flags or "c" in flags):
        raise VerbUsageError(
            "TTLs cannot be used with Ephemeral znodes"
            if "e" in flags
            else "TTLs cannot be used with Container znodes"
        )
    path = words.rest[0]
    checked_path(path if "s" not in flags else f"{path}1")
    data = words.rest[1].encode() if len(words.rest) > 1 else None
    acls = parse_acls(words.rest[2]) if len(words.rest) > 2 else EVERYBODY
    created = nodes.create(path, data, acls, _create_mode(flags), ttl_ms)
    return Answer((), [f"Created {created}"], "nodes", [{"path": created}])


def _create_mode(flags: Mapping[str, str]) -> CreateMode:
    if "c" in flags:
        return CreateMode.CONTAINER
    if "t" in flags:
        return CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL if "s" in flags else CreateMode.PERSISTENT_WITH_TTL
    if "e" in flags:
        return CreateMode.EPHEMERAL_SEQUENTIAL if "s" in flags else CreateMode.EPHEMERAL
    return CreateMode.PERSISTENT_SEQUENTIAL if "s" in flags else CreateMode.PERSISTENT


def _set(nodes: Nodes, words: Words) -> Answer:
    path = words.path()
    stat = nodes.set(path, words.rest[1].encode(), words.version())
    return Answer(stat_lines(stat) if "s" in words.flags else (), (), "nodes", [_stat_row(path, stat)])


def _delete(nodes: Nodes, words: Words) -> Answer:
    nodes.delete(words.path(), words.version())
    return Answer()


def _delete_all(nodes: Nodes, words: Words) -> Answer:
    path = words.path()
    batch = words.integer("b", _DELETE_BATCH)
    if path == "/" or batch < 1:
        raise VerbUsageError("the root cannot be deleted" if path == "/" else f"-b needs more than {batch}")
    paths = sorted(_existing_subtree(nodes, path), key=lambda each: each.count("/"), reverse=True)
    if not nodes.delete_all(paths, batch):
        raise DeletionIncompleteError("Failed to delete some node(s) in the subtree!")
    return Answer()


def _existing_subtree(nodes: Nodes, path: str) -> list[str]:
    nodes.children(path)  # a missing node is an error, one that vanishes later is not
    return list(_subtree(nodes, path))


def _set_acl(nodes: Nodes, words: Words) -> Answer:
    path = words.path()
    acls = parse_acls(words.rest[1])
    if "R" in words.flags:
        for each in _existing_subtree(nodes, path):
            nodes.set_acl(each, acls, words.version())
        return Answer()
    stat = nodes.set_acl(path, acls, words.version())
    return Answer(stat_lines(stat) if "s" in words.flags else ())


def _sync(nodes: Nodes, words: Words) -> Answer:
    nodes.sync(words.path())
    return Answer(["Sync is OK"])


def _add_auth(nodes: Nodes, words: Words) -> Answer:
    nodes.add_auth(words.rest[0], words.rest[1] if len(words.rest) > 1 else "")
    return Answer()


def _reconfig(nodes: Nodes, words: Words) -> Answer:
    # Its flags are words (-add), which the other verbs have not.
    given: dict[str, str] = {}
    left = iter(words.rest)
    for word in left:
        name = word.lstrip("-")
        if name == "s":
            given["s"] = ""
        elif name in ("v", "file", "members", "add", "remove"):
            value = next(left, None)
            if value is None:
                raise VerbUsageError(f"Missing argument for option: {name}")
            given[name] = f"{given[name]},{value}" if name in given else value
        else:
            raise VerbUsageError(f"Unrecognized option: {word}")
    joining, leaving, members = given.get("add"), given.get("remove"), given.get("members")
    if "file" in given:
        lines = Path(given["file"]).read_text().splitlines()
        members = ",".join(line for line in lines if line.startswith("server."))
    if not (joining or leaving or members):
        raise VerbUsageError(VERBS["reconfig"].usage)
    if members and (joining or leaving):
        raise VerbUsageError(
            "Can't use -file or -members together with -add or -remove "
            "(mixing incremental and non-incremental modes is not allowed)"
        )
    version = Words({"v": given["v"]} if "v" in given else {}, ()).version()
    data, stat = nodes.reconfigure(joining, leaving, members, version)
    lines = [f"Committed new configuration:\n{(data or b'').decode(errors='replace')}"]
    return Answer([*lines, *(stat_lines(stat) if "s" in given else ())])


# -- watches and quotas ------------------------------------------------------------------------------------


def _add_watch(nodes: Nodes, words: Words) -> Answer:
    name = words.flags.get("m", AddWatchMode.PERSISTENT_RECURSIVE.name)
    try:
        mode = AddWatchMode[name]
    except KeyError:
        raise VerbUsageError(VERBS["addWatch"].usage) from None
    nodes.add_watch(words.path(), mode)
    return Answer()


def _remove_watches(nodes: Nodes, words: Words) -> Answer:
    kind = WatcherType.ANY
    if "c" in words.flags:
        kind = WatcherType.CHILDREN
    elif "d" in words.flags:
        kind = WatcherType.DATA
    nodes.remove_watches(words.path(), kind, local="l" in words.flags)
    return Answer()


def _set_quota(nodes: Nodes, words: Words) -> Answer:
    # Read by hand: a value may follow a flag, or stand where the path could be.
    kinds = [each for each in words.flags if each in zookeeper_quota.KINDS]
    if len(kinds) != 1:
        raise VerbUsageError(
            "Missing required option: [-n num soft quota, -b bytes soft quota, "
            "-N num hard quota, -B bytes hard quota]"
            if not kinds
            else f"one of -n, -b, -N and -B at a time, not -{' -'.join(kinds)}"
        )
    warnings = zookeeper_quota.set_quota(nodes, words.path(), kinds[0], words.integer(kinds[0], -1))
    return Answer(warnings)


def _list_quota(nodes: Nodes, words: Words) -> Answer:
    path = words.path()
    remark = f"absolute path is {zookeeper_quota.limits_path(path)}"
    limits, counts = zookeeper_quota.list_quota(nodes, path)
    text = zookeeper_quota.text_of
    lines = [f"Output quota for {path} {text(limits)}", f"Output stat for {path} {text(counts)}"]
    return Answer(lines, [remark], "quotas", [{"path": path, "limits": limits, "counts": counts}])


def _delete_quota(nodes: Nodes, words: Words) -> Answer:
    path = words.path()
    if zookeeper_quota.delete_quota(nodes, path, list(words.flags)):
        return Answer()
    return Answer([f"Quota does not exist for {path}"])


VERBS: Final[Mapping[str, Verb]] = {
    "addWatch": Verb(
        "addWatch [-m mode] path # optional mode is one of [PERSISTENT, PERSISTENT_RECURSIVE] - "
        "default is PERSISTENT_RECURSIVE",
        _add_watch,
        valued="m",
    ),
    "addauth": Verb("addauth scheme auth", _add_auth),
    "config": Verb("config [-c] [-w] [-s]", _config, "cws", least=0),
    "create": Verb("create [-s] [-e] [-c] [-t ttl] path [data] [acl]", _create, "sec", "t"),
    "delete": Verb("delete [-v version] path", _delete, valued="v"),
    "deleteall": Verb("deleteall path [-b batch size]", _delete_all, valued="b"),
    "delquota": Verb("delquota [-n|-b|-N|-B] path", _delete_quota, "nbNB"),
    "get": Verb("get [-s] [-w] path", _get, "sw"),
    "getAcl": Verb("getAcl [-s] path", _get_acl, "s"),
    "getAllChildrenNumber": Verb("getAllChildrenNumber path", _get_all_children_number),
    "getEphemerals": Verb("getEphemerals path", _get_ephemerals, least=0),
    "listquota": Verb("listquota path", _list_quota),
    "ls": Verb("ls [-s] [-w] [-R] path", _ls, "swR"),
    "reconfig": Verb(
        "reconfig [-s] [-v version] [[-file path] | [-members serverID=host:port1:port2;port3[,...]*]] | "
        "[-add serverId=host:port1:port2;port3[,...]]* [-remove serverId[,...]*]",
        _reconfig,
    ),
    "removewatches": Verb("removewatches path [-c|-d|-a] [-l]", _remove_watches, "cdal"),
    "set": Verb("set [-s] [-v version] path data", _set, "s", "v", least=2),
    "setAcl": Verb("setAcl [-s] [-v version] [-R] path acl", _set_acl, "sR", "v", least=2),
    "setquota": Verb("setquota -n|-b|-N|-B val path", _set_quota, valued="nbNB"),
    "stat": Verb("stat [-w] path", _stat, "w"),
    "sync": Verb("sync path", _sync),
    "version": Verb("version ", _version, least=0),
    "whoami": Verb("whoami ", _whoami, least=0),
}

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
        if not number.isdigit() or int(number) >= len(self.history) - 1:
            raise VerbUsageError("Command index out of range")
        line = self.history[int(number)]
        if split_line(line)[:1] == ["redo"]:
            raise VerbUsageError("No redoing redos")
        self.history[-1] = line
        return self.run(split_line(line) or [""])


def tls_settings(properties: Mapping[str, str], *, source: str) -> dict[str, Any] | None:
    """What ``-zk-tls-config-file`` says, as certificates in PEM; None when it does not ask for TLS.

    Args:
        properties: of the file, ``zookeeper.ssl.*`` as for a broker.
        source: the file, for messages.

    Raises:
        NotServedError: a store is not in PEM, which is all that Python reads.
    """
    known = {key.removeprefix("zookeeper.").strip(): value for key, value in properties.items()}
    if known.get("ssl.client.enable", "false").lower() != "true":
        return None
    paths = {}
    for store, wanted in (("keystore", ("certfile", "keyfile")), ("truststore", ("ca",))):
        location = known.get(f"ssl.{store}.location")
        if location is None:
            continue
        kind = known.get(f"ssl.{store}.type", "PEM" if location.endswith(".pem") else "").upper()
        if kind != "PEM":
            raise NotServedError(
                "",
                f"{source}: ssl.{store}.location needs a PEM file (keytool -importkeystore -deststoretype pkcs12, "
                "then openssl pkcs12 -nodes)",
            )
        paths.update(dict.fromkeys(wanted, location))
    checks_host = known.get("ssl.endpoint.identification.algorithm", "HTTPS").upper() == "HTTPS"
    password = known.get("ssl.keystore.password")
    return {
        **paths,
        **({"keyfile_password": password} if password else {}),
        "verify_certs": True,
        "check_hostname": checks_host,
    }
