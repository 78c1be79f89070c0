"""The verbs of ZooKeeper's shell that ask the store: arguments in, answers out; nothing is printed here.

Flags and texts are those of org.apache.zookeeper.ZooKeeperMain 3.8, which Apache Kafka 3.9's zookeeper-shell runs.
Lines of an answer go to standard output, remarks to standard error, as they do there.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pkafka
from pkafka.coordination.administration import (
    OPEN_TO_ALL,
    AddWatchMode,
    CreateMode,
    KeeperCode,
    KeeperError,
    Nodes,
    WatcherType,
)
from pkafka.errors import PkafkaError
from pkafka.tools.json_bytes import value_of
from pkafka.tools.zookeeper import quota
from pkafka.tools.zookeeper.words import (
    Answer,
    Verb,
    VerbUsageError,
    Words,
    checked_path,
    parse_acls,
    perms_text,
    stat_lines,
    stat_row,
)

ZOOKEEPER_VERSION: Final = "3.8.4"
_DELETE_BATCH: Final = 1000


class DeletionIncompleteError(PkafkaError):
    """Some nodes of a subtree are still there."""


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
    return Answer(lines, (), "nodes", [{**stat_row(path, stat), "data": value_of(data)}])


def _stat(nodes: Nodes, words: Words) -> Answer:
    path = words.path()
    found = nodes.exists(path, watch=_wants_watch(words))
    if found is None:
        raise KeeperError(KeeperCode.NO_NODE, path)
    return Answer(stat_lines(found), (), "nodes", [stat_row(path, found)])


def _wants_watch(words: Words) -> bool:
    return "w" in words.flags or len(words.rest) > 1  # the older way: any second argument


def _get_acl(nodes: Nodes, words: Words) -> Answer:
    acls, stat = nodes.get_acl(words.path())
    lines = [line for each in acls for line in (f"'{each.scheme},'{each.id}", f": {perms_text(each.perms)}")]
    rows = [{"scheme": each.scheme, "id": each.id, "perms": perms_text(each.perms)} for each in acls]
    return Answer([*lines, *(stat_lines(stat) if "s" in words.flags else ())], (), "acl", rows)


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
    acls = parse_acls(words.rest[2]) if len(words.rest) > 2 else OPEN_TO_ALL
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
    return Answer(stat_lines(stat) if "s" in words.flags else (), (), "nodes", [stat_row(path, stat)])


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
    kinds = [each for each in words.flags if each in quota.KINDS]
    if len(kinds) != 1:
        raise VerbUsageError(
            "Missing required option: [-n num soft quota, -b bytes soft quota, "
            "-N num hard quota, -B bytes hard quota]"
            if not kinds
            else f"one of -n, -b, -N and -B at a time, not -{' -'.join(kinds)}"
        )
    warnings = quota.set_quota(nodes, words.path(), kinds[0], words.integer(kinds[0], -1))
    return Answer(warnings)


def _list_quota(nodes: Nodes, words: Words) -> Answer:
    path = words.path()
    remark = f"absolute path is {quota.limits_path(path)}"
    limits, counts = quota.list_quota(nodes, path)
    text = quota.text_of
    lines = [f"Output quota for {path} {text(limits)}", f"Output stat for {path} {text(counts)}"]
    return Answer(lines, [remark], "quotas", [{"path": path, "limits": limits, "counts": counts}])


def _delete_quota(nodes: Nodes, words: Words) -> Answer:
    path = words.path()
    if quota.delete_quota(nodes, path, list(words.flags)):
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
