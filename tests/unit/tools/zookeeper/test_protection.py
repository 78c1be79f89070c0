"""Rights of nodes that are there: which are set, what is left alone, what a refusal does."""

from collections.abc import Sequence
from typing import Any

import pytest

from pkafka.coordination.administration import (
    OPEN_TO_ALL,
    Acl,
    ClientInfo,
    KeeperCode,
    KeeperError,
    Permission,
)
from pkafka.coordination.zookeeper_access import PROTECTED_ROOTS, rights_at
from pkafka.tools.zookeeper.protection import Change, Migration, Result

OWN = Acl(Permission(31), "sasl", "kafka")
TO_READ = Acl(Permission(1), "world", "anyone")


class Tree:
    """Nodes by path; answers what a migration asks."""

    def __init__(self, *paths: str) -> None:
        self.acls: dict[str, Sequence[Acl]] = {"/": OPEN_TO_ALL}
        for path in paths:
            parts = path.split("/")[1:]
            for end in range(len(parts)):
                self.acls.setdefault("/" + "/".join(parts[: end + 1]), OPEN_TO_ALL)
        self.refused: dict[str, KeeperCode] = {}
        self.lost_answers = 0

    def _ask(self, path: str) -> None:
        if self.lost_answers:
            self.lost_answers -= 1
            raise KeeperError(KeeperCode.CONNECTION_LOSS, path)

    def exists(self, path: str) -> object | None:
        self._ask(path)
        return object() if path in self.acls else None

    def children(self, path: str) -> tuple[list[str], None]:
        self._ask(path)
        if path not in self.acls:
            raise KeeperError(KeeperCode.NO_NODE, path)
        above = path.rstrip("/")
        return [each.rpartition("/")[2] for each in self.acls if each.rpartition("/")[0] == above], None

    def create(self, path: str, data: bytes | None, acls: Sequence[Acl]) -> str:
        self._ask(path)
        if path in self.acls:
            raise KeeperError(KeeperCode.NODE_EXISTS, path)
        if (path.rpartition("/")[0] or "/") not in self.acls:
            raise KeeperError(KeeperCode.NO_NODE, path)
        self.acls[path] = acls
        return path

    def get_acl(self, path: str) -> tuple[list[Acl], None]:
        self._ask(path)
        return list(self.acls[path]), None

    def set_acl(self, path: str, acls: Sequence[Acl]) -> None:
        self._ask(path)
        if path in self.refused:
            raise KeeperError(self.refused[path], path)
        self.acls[path] = acls

    def whoami(self) -> list[ClientInfo]:
        self._ask("")
        return [ClientInfo("ip", "127.0.0.1"), ClientInfo("sasl", "kafka")]


def migration(tree: Any, *, secure: bool = True, dry_run: bool = False) -> Migration:
    return Migration(tree, secure=secure, dry_run=dry_run)


def results(changes: Sequence[Change]) -> dict[str, Result]:
    return {each.path: each.result for each in changes}


def test_every_node_of_a_cluster_is_protected_and_none_of_others() -> None:
    tree = Tree("/config/users/alice", "/brokers/topics/t", "/consumers/g", "/else", "/controller")
    run = migration(tree)
    assert run.above() == Change("/", Result.SET, [OWN, TO_READ])
    found = list(run.below())
    assert len(found) == len({each.path for each in found})
    assert tree.acls["/config/users/alice"] == rights_at("/config/users/alice")
    assert tree.acls["/brokers/topics/t"] == rights_at("/brokers/topics/t")
    assert {tree.acls[path] for path in ("/consumers", "/consumers/g", "/else")} == {OPEN_TO_ALL}
    assert results(found)["/controller"] is Result.SET


def test_missing_subtrees_are_made_but_for_the_controllers() -> None:
    tree = Tree()
    run = migration(tree)
    assert run.missing() == list(PROTECTED_ROOTS)
    assert set(results(list(run.below())).values()) == {Result.CREATED}
    assert set(PROTECTED_ROOTS) - tree.acls.keys() == {"/controller"}
    assert tree.acls["/kafka-acl-extended/prefixed"] == rights_at("/kafka-acl-extended/prefixed")


def test_nodes_are_opened_again() -> None:
    tree = Tree("/config/users/alice")
    list(migration(tree).below())
    list(migration(tree, secure=False).below())
    assert set(tree.acls.values()) == {OPEN_TO_ALL}


def test_a_dry_run_compares_with_what_the_server_would_store() -> None:
    tree = Tree("/config/users/alice", "/brokers/topics")
    tree.acls["/brokers/topics"] = [TO_READ, OWN]
    before = dict(tree.acls)
    found = results([*migration(tree, dry_run=True).below()])
    assert tree.acls == before
    assert found["/brokers/topics"] is Result.UNCHANGED
    assert found["/brokers"] is found["/config/users/alice"] is Result.SET
    assert found["/migration"] is Result.CREATED
    assert "/controller" not in found


def test_a_refusal_or_a_node_that_goes_does_not_stop_it() -> None:
    tree = Tree("/brokers/ids/0", "/config/topics", "/isr_change_notification/x")
    tree.refused = {"/brokers/ids": KeeperCode.NO_AUTH, "/isr_change_notification/x": KeeperCode.NO_NODE}
    found = results([*migration(tree).below()])
    assert found["/brokers/ids"] is Result.FAILED
    assert found["/isr_change_notification/x"] is Result.GONE
    assert found["/brokers/ids/0"] is found["/config/topics"] is Result.SET


def test_the_end_of_the_session_is_the_end() -> None:
    tree = Tree("/brokers/ids")
    tree.refused = {"/brokers/ids": KeeperCode.SESSION_EXPIRED}
    with pytest.raises(KeeperError, match="Session expired"):
        list(migration(tree).below())


def test_a_lost_connection_is_tried_again() -> None:
    tree = Tree("/brokers")
    run = migration(tree)
    tree.lost_answers = 2
    assert run.above().result is Result.SET
    tree.lost_answers = 3
    with pytest.raises(KeeperError, match="ConnectionLoss"):
        run.missing()
