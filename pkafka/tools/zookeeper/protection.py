"""Rights of the nodes that are there already, as zookeeper-security-migration.sh sets them.

``zookeeper.set.acl`` is about nodes that brokers make from then on. This gives the nodes of a cluster the rights that
they would have got then, or takes those away again. As Apache Kafka's tool, it makes the subtrees that are missing,
and leaves out ``/consumers``, where every client writes.
"""

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Final, NamedTuple, TypeVar

from pkafka.coordination.administration import OPEN_TO_ALL, Acl, KeeperCode, KeeperError, Nodes
from pkafka.coordination.znodes import CONTROLLER
from pkafka.coordination.zookeeper_access import PROTECTED_ROOTS, rights_at

T = TypeVar("T")

_TRIES: Final = 3
_IP: Final = "ip"
"""The scheme of an address, which proves nothing: no node is anybody's by it."""


class Result(Enum):
    """What became of a node, or would become of it."""

    CREATED = "created"
    SET = "set"
    UNCHANGED = "unchanged"
    """It has these rights; only a dry run looks."""
    GONE = "gone"
    """Somebody deleted it meanwhile, as nodes of notifications are."""
    FAILED = "failed"


class Change(NamedTuple):
    """One node.

    Args:
        path: in the cluster's chroot.
        result: what became of it.
        acl: the rights that it is to have.
        error: why it could not be changed.
    """

    path: str
    result: Result
    acl: Sequence[Acl]
    error: KeeperError | None = None


class Migration:
    """Sets the rights of a cluster's nodes.

    Args:
        nodes: a session that has proven who it is.
        secure: make the nodes its own; otherwise open them to everybody.
        dry_run: change nothing, and say what would be changed.
    """

    def __init__(self, nodes: Nodes, *, secure: bool, dry_run: bool) -> None:
        self._nodes = nodes
        self._secure = secure
        self._dry_run = dry_run
        self._own: Sequence[tuple[str, str]] | None = None

    def missing(self) -> list[str]:
        """The protected subtrees that are not there, in Kafka's order.

        Raises:
            KeeperError: the store refused.
        """
        return [path for path in PROTECTED_ROOTS if not self._is_there(path)]

    def above(self) -> Change:
        """Change the node above all of them, the chroot."""
        return self._change("/")

    def below(self) -> Iterator[Change]:
        """Change the protected subtrees, those that are missing after making them.

        Yields:
            Each node, once that is done. A node that cannot be changed does not stop it.

        Raises:
            KeeperError: a subtree cannot be made, or the session is over.
        """
        seen: set[str] = set()
        for root in PROTECTED_ROOTS:
            if self._is_there(root):
                yield from self._subtree(root, seen)
            elif root != CONTROLLER:  # a node that only the controller itself makes
                yield self._create(root)

    def _subtree(self, root: str, seen: set[str]) -> Iterator[Change]:
        waiting = [root]
        while waiting:
            path = waiting.pop()
            if path in seen:
                continue
            seen.add(path)
            yield self._change(path)
            waiting += [f"{path}/{name}" for name in sorted(self._children(path), reverse=True)]

    def _children(self, path: str) -> list[str]:
        try:
            return _patiently(lambda: self._nodes.children(path)[0])
        except KeeperError as error:
            if error.code != KeeperCode.NO_NODE:
                raise
            return []

    def _is_there(self, path: str) -> bool:
        return _patiently(lambda: self._nodes.exists(path)) is not None

    def _create(self, path: str) -> Change:
        if not self._dry_run:
            above = path.rpartition("/")[0]
            for each in (above, path) if above else (path,):
                self._ensure(each)
        return Change(path, Result.CREATED, self._shown(path))

    def _ensure(self, path: str) -> None:
        try:
            _patiently(lambda: self._nodes.create(path, None, self._rights(path)))
        except KeeperError as error:
            if error.code != KeeperCode.NODE_EXISTS:
                raise

    def _change(self, path: str) -> Change:
        shown = self._shown(path)
        try:
            if not self._dry_run:
                _patiently(lambda: self._nodes.set_acl(path, self._rights(path)))
            elif set(_patiently(lambda: self._nodes.get_acl(path)[0])) == set(shown):
                return Change(path, Result.UNCHANGED, shown)
        except KeeperError as error:
            if error.code == KeeperCode.NO_NODE:
                return Change(path, Result.GONE, shown)
            if error.code in _END:
                raise
            return Change(path, Result.FAILED, shown, error)
        return Change(path, Result.SET, shown)

    def _rights(self, path: str) -> Sequence[Acl]:
        return rights_at(path) if self._secure else OPEN_TO_ALL

    def _shown(self, path: str) -> Sequence[Acl]:
        """The rights with the names of who this is, as the server stores them."""
        if self._own is None:
            known = _patiently(self._nodes.whoami)
            self._own = [(each.scheme, each.user) for each in known if each.scheme != _IP]
        return [
            named
            for each in self._rights(path)
            for named in (
                [Acl(each.perms, *own) for own in self._own]
                if each.scheme == "auth" and self._own
                else [each]
            )
        ]


_END: Final = frozenset({KeeperCode.SESSION_EXPIRED, KeeperCode.CONNECTION_LOSS, KeeperCode.AUTH_FAILED})


def _patiently(ask: Callable[[], T]) -> T:
    """Ask again after the connection was lost: each of these questions may be asked twice."""
    for _ in range(_TRIES - 1):
        try:
            return ask()
        except KeeperError as error:
            if error.code != KeeperCode.CONNECTION_LOSS:
                raise
    return ask()
