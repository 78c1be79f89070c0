"""Quotas of ZooKeeper: nodes below ``/zookeeper/quota`` that say how many nodes and bytes a subtree may have.

``zookeeper_limits`` holds the limits and ``zookeeper_stats`` what the server counts, both as
``count=5,bytes=-1=;byteHardLimit=-1;countHardLimit=-1`` (ZOOKEEPER-451; the second ``=`` ends it for older parsers).
"""

from typing import Final

from pkafka.coordination.administration import KeeperCode, KeeperError, Nodes
from pkafka.errors import PkafkaError
from pkafka.java.numbers import parse_long

QUOTAS: Final = "/zookeeper/quota"
KINDS: Final = {"n": "count", "b": "bytes", "N": "countHardLimit", "B": "byteHardLimit"}
"""Flags of setquota, and what the nodes call their values."""

_LIMITS: Final = "zookeeper_limits"
_STATS: Final = "zookeeper_stats"
_NONE: Final = -1


class QuotaError(PkafkaError):
    """A quota cannot be there."""


class QuotaTooLowError(PkafkaError):
    """No subtree is within such a limit."""


class NoQuotaError(PkafkaError):
    """There is no quota."""


def limits_path(path: str) -> str:
    """The node with the limits of ``path``."""
    return f"{QUOTAS}{path}/{_LIMITS}"


def parse(data: bytes | None) -> dict[str, int]:
    """Limits or counts by name."""
    text = (data or b"").decode(errors="replace").replace("=;", ",").replace(";", ",")
    pairs = (item.partition("=")[::2] for item in text.split(",") if "=" in item)
    try:
        return {key: parse_long(value) for key, value in pairs}
    except ValueError:
        raise QuotaError(f"invalid string {text}") from None


def text_of(values: dict[str, int]) -> str:
    """The content of a node, and what listquota shows."""
    more = "".join(f";{key}={values[key]}" for key in ("byteHardLimit", "countHardLimit") if key in values)
    begin = f"count={values.get('count', _NONE)},bytes={values.get('bytes', _NONE)}"
    return f"{begin}={more}" if more else begin


def set_quota(nodes: Nodes, path: str, kind: str, limit: int) -> list[str]:
    """Set one limit of a subtree.

    Returns:
        Warnings, where there is more already than some limit allows.

    Raises:
        QuotaTooLowError: see there.
        QuotaError: there is no such node, or one above or below it has a quota.
    """
    if kind in "nN" and limit < 1:
        raise QuotaTooLowError("the num quota must be greater than zero")
    if limit < 0:
        raise QuotaTooLowError("the bytes quota must be greater than or equal to zero")
    if nodes.exists(path) is None:
        raise QuotaError(f"{path} does not exist.")
    _refuse_others(nodes, path)
    current = _read(nodes, limits_path(path))
    values = {**dict.fromkeys(KINDS.values(), _NONE), **(current or {}), KINDS[kind]: limit}
    if current is not None:
        nodes.set(limits_path(path), text_of(values).encode())
    else:
        _create_quota(nodes, path, values)
    counts = _read(nodes, f"{QUOTAS}{path}/{_STATS}") or {}
    return [
        f"[Warning]: the {name} quota you create is less than the existing {name}:{counts[name]}"
        for name, hard in (("count", "countHardLimit"), ("bytes", "byteHardLimit"))
        if any(_NONE < values[each] < counts.get(name, 0) for each in (name, hard))
    ]


def _create_quota(nodes: Nodes, path: str, values: dict[str, int]) -> None:
    at = QUOTAS
    for part in path.split("/")[1:]:
        at += f"/{part}"
        _create(nodes, at, None)
    nodes.create(f"{at}/{_LIMITS}", text_of(values).encode())
    _create(nodes, f"{at}/{_STATS}", b"count=0,bytes=0")  # the server counts from then on


def list_quota(nodes: Nodes, path: str) -> tuple[dict[str, int], dict[str, int]]:
    """Limits and counts of a subtree.

    Raises:
        NoQuotaError: it has none.
    """
    limits = _read(nodes, limits_path(path))
    if limits is None:
        raise NoQuotaError(f"quota for {path} does not exist.")
    return limits, _read(nodes, f"{QUOTAS}{path}/{_STATS}") or {}


def delete_quota(nodes: Nodes, path: str, kinds: list[str]) -> bool:
    """Take some limits away, all without ``kinds``.

    Returns:
        Whether there were any.
    """
    limits = _read(nodes, limits_path(path))
    if limits is None:
        return False
    if kinds:
        values = {**limits, **{KINDS[kind]: _NONE for kind in kinds}}
        nodes.set(limits_path(path), text_of(values).encode())
        return True
    nodes.delete(limits_path(path))
    nodes.delete(f"{QUOTAS}{path}/{_STATS}")
    at = QUOTAS + path
    while at != QUOTAS and not nodes.children(at)[0]:
        nodes.delete(at)
        at = at[: at.rfind("/")]
    return True


def _refuse_others(nodes: Nodes, path: str) -> None:
    """The server counts a node for one quota only."""
    parts = path.split("/")
    for end in range(2, len(parts)):
        above = "/".join(parts[:end])
        if nodes.exists(limits_path(above)) is not None:
            raise QuotaError(f"{path} has a parent {above} which has a quota")
    below = [QUOTAS + path] if nodes.exists(QUOTAS + path) is not None else []
    for each in below:  # grows while it is walked
        names, _ = nodes.children(each)
        if _LIMITS in names and each != QUOTAS + path:
            raise QuotaError(f"{path} has a child {each.removeprefix(QUOTAS)} which has a quota")
        below += [f"{each}/{name}" for name in names if name not in (_LIMITS, _STATS)]


def _read(nodes: Nodes, path: str) -> dict[str, int] | None:
    try:
        return parse(nodes.get(path)[0])
    except KeeperError as error:
        if error.code != KeeperCode.NO_NODE:
            raise
        return None


def _create(nodes: Nodes, path: str, data: bytes | None) -> None:
    try:
        nodes.create(path, data)
    except KeeperError as error:
        if error.code != KeeperCode.NODE_EXISTS:
            raise
