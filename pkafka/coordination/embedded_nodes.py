"""The file of an embedded store, for an operator: nodes without what only a server has.

Reading goes on beside the broker that owns the file. A writer owns the file until :meth:`EmbeddedNodes.close`, and is
refused while a broker owns it: there is one owner for each state.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NoReturn

from pkafka.coordination.administration import (
    OPEN_TO_ALL,
    Acl,
    AddWatchMode,
    ClientInfo,
    CreateMode,
    KeeperCode,
    KeeperError,
    NotServedError,
    WatcherType,
)
from pkafka.coordination.embedded import EmbeddedStore
from pkafka.coordination.store import (
    ANY_VERSION,
    BadVersionError,
    DataTooLargeError,
    DeleteOp,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Stat,
    StoreAccessError,
    StoreError,
)

_CODES: Final = {
    NoNodeError: KeeperCode.NO_NODE,
    NodeExistsError: KeeperCode.NODE_EXISTS,
    BadVersionError: KeeperCode.BAD_VERSION,
    NotEmptyError: KeeperCode.NOT_EMPTY,
    NoChildrenForEphemeralsError: KeeperCode.NO_CHILDREN_FOR_EPHEMERALS,
    DataTooLargeError: KeeperCode.CONNECTION_LOSS,  # as ZooKeeper does to a client that sends too much
}
_MODES: Final = frozenset(
    {
        CreateMode.PERSISTENT,
        CreateMode.EPHEMERAL,
        CreateMode.PERSISTENT_SEQUENTIAL,
        CreateMode.EPHEMERAL_SEQUENTIAL,
    }
)


class EmbeddedNodes:
    """:class:`~pkafka.coordination.administration.Nodes` of a file.

    Args:
        path: the file, which must exist.

    Raises:
        StoreAccessError: it does not.
        StorageError: it is no store.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise StoreAccessError("", f"{path} does not exist")
        self._path = path
        self._reader = EmbeddedStore(path, read_only=True)
        self._writer: EmbeddedStore | None = None

    def create(
        self,
        path: str,
        data: bytes | None,
        acls: Sequence[Acl] = OPEN_TO_ALL,
        mode: CreateMode = CreateMode.PERSISTENT,
        ttl_ms: int = -1,
    ) -> str:
        if mode not in _MODES:
            _refuse("containers and nodes with a time to live")
        if tuple(acls) != OPEN_TO_ALL:
            _refuse("ACLs")
        try:
            return self._owned().create(
                path,
                data or b"",
                ephemeral=mode in (CreateMode.EPHEMERAL, CreateMode.EPHEMERAL_SEQUENTIAL),
                sequential=mode in (CreateMode.PERSISTENT_SEQUENTIAL, CreateMode.EPHEMERAL_SEQUENTIAL),
            )
        except StoreError as error:
            raise _keeper_error(error, path) from error

    def delete(self, path: str, version: int = ANY_VERSION) -> None:
        try:
            self._owned().delete(path, version=version)
        except StoreError as error:
            raise _keeper_error(error, path) from error

    def delete_all(self, paths: Sequence[str], batch: int) -> bool:
        batches = [[DeleteOp(path) for path in paths[at : at + batch]] for at in range(0, len(paths), batch)]
        return not any(isinstance(each, StoreError) for each in self._owned().multi_many(batches))

    def exists(self, path: str, *, watch: bool = False) -> Stat | None:
        _refuse_watch(watch)
        return self._reader.exists(path)

    def get(self, path: str, *, watch: bool = False) -> tuple[bytes | None, Stat]:
        _refuse_watch(watch)
        try:
            return self._reader.get(path)
        except StoreError as error:
            raise _keeper_error(error, path) from error

    def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        try:
            return self._owned().set(path, data, version=version)
        except StoreError as error:
            raise _keeper_error(error, path) from error

    def children(self, path: str, *, watch: bool = False) -> tuple[list[str], Stat]:
        _, stat = self.get(path, watch=watch)
        return self._reader.children(path), stat

    def get_acl(self, path: str) -> tuple[list[Acl], Stat]:
        """Every client may do everything: the permissions of the file decide."""
        _, stat = self.get(path)
        return list(OPEN_TO_ALL), stat

    def set_acl(self, path: str, acls: Sequence[Acl], version: int = ANY_VERSION) -> Stat:
        _refuse("ACLs")

    def sync(self, path: str) -> None:
        """Nothing to wait for: there is one copy."""

    def ephemerals(self, prefix: str) -> list[str]:
        """Those of all sessions: the broker's are what is of interest."""
        return [path for path in self._below(prefix) if self._is_ephemeral(path)]

    def all_children_number(self, path: str) -> int:
        return len(self._below(path)) - 1

    def add_watch(self, path: str, mode: AddWatchMode) -> None:
        _refuse_watch(True)

    def remove_watches(self, path: str, kind: WatcherType, *, local: bool) -> None:
        _refuse_watch(True)

    def add_auth(self, scheme: str, credential: str) -> None:
        _refuse("authentication")

    def whoami(self) -> list[ClientInfo]:
        _refuse("authentication")

    def config(self, *, watch: bool = False) -> tuple[bytes | None, Stat]:
        _refuse("ensemble")

    def reconfigure(
        self, joining: str | None, leaving: str | None, members: str | None, version: int
    ) -> tuple[bytes | None, Stat]:
        _refuse("ensemble")

    def close(self) -> None:
        """Give the file up. Idempotent."""
        self._reader.close()
        if self._writer is not None:
            self._writer.close()

    def _owned(self) -> EmbeddedStore:
        if self._writer is None:
            try:
                self._writer = EmbeddedStore(self._path)
            except StoreAccessError as error:
                raise NotServedError(
                    "",
                    f"{self._path} belongs to a broker that runs: nodes can only be read (stop it to change them)",
                ) from error
        return self._writer

    def _below(self, path: str) -> list[str]:
        found = [path]
        for each in found:  # grows while it is walked
            names, _ = self.children(each)
            found += [f"{each.rstrip('/')}/{name}" for name in names]
        return found

    def _is_ephemeral(self, path: str) -> bool:
        stat = self._reader.exists(path)
        return stat is not None and bool(stat.ephemeral_owner)


def _keeper_error(error: StoreError, path: str) -> StoreError:
    code = _CODES.get(type(error))
    return error if code is None else KeeperError(code, path)


def _refuse_watch(watch: bool) -> None:
    if watch:
        _refuse("watches")


def _refuse(what: str) -> NoReturn:
    raise NotServedError("", f"an embedded store has no {what}")
