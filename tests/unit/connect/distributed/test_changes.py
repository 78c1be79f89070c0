"""Changes of a cluster's configuration as the herder's thread takes them up."""

from pkafka.connect.distributed.changes import StagedChanges, Taken
from pkafka.connect.storage.config_state import (
    ConnectorChanged,
    ConnectorRemoved,
    RestartAsked,
    SessionKeyChanged,
    TargetChanged,
    TaskCountChanged,
    TasksChanged,
)
from pkafka.connect.storage.session_key import SessionKey

NOTHING = frozenset[str]()


class Staged:
    """Changes, with one connector that is known."""

    def __init__(self) -> None:
        self.woken = 0
        self.changes = StagedChanges(lambda name: name == "known", self._wake)

    def _wake(self) -> None:
        self.woken += 1


def test_only_what_is_new_or_gone_has_to_be_shared_out_anew() -> None:
    staged = Staged()
    staged.changes.put(ConnectorChanged("known"))
    assert staged.changes.take() == Taken(False, frozenset({"known"}), NOTHING, NOTHING)
    staged.changes.put(ConnectorChanged("new"))
    assert staged.changes.needs_rebalance
    assert staged.changes.take() == Taken(True, NOTHING, NOTHING, NOTHING)
    assert not staged.changes.needs_rebalance
    staged.changes.put(ConnectorRemoved("known"))
    assert staged.changes.take() == Taken(True, NOTHING, NOTHING, NOTHING)
    assert staged.woken == 3


def test_other_tasks_have_to_be_shared_out_and_another_target_not() -> None:
    staged = Staged()
    staged.changes.put(TargetChanged("known"))
    staged.changes.put(TasksChanged("known", ()))
    assert staged.changes.take() == Taken(True, NOTHING, frozenset({"known"}), frozenset({"known"}))
    assert staged.changes.take() is None


def test_of_restarts_of_one_connector_the_one_that_does_most_counts() -> None:
    staged = Staged()
    for only_failed, include_tasks in (
        (True, True),
        (False, False),
        (True, False),
        (False, True),
        (False, False),
    ):
        staged.changes.put(RestartAsked("known", only_failed, include_tasks))
    staged.changes.put(RestartAsked("other", True, False))
    assert staged.changes.take_restarts() == [
        RestartAsked("known", False, True),
        RestartAsked("other", True, False),
    ]
    assert staged.changes.take_restarts() == []


def test_what_the_herder_has_nothing_to_do_for_does_not_wake_it() -> None:
    staged = Staged()
    staged.changes.put(TaskCountChanged("known", 3))
    assert (staged.woken, staged.changes.take()) == (0, None)
    staged.changes.put(SessionKeyChanged(SessionKey(b"k" * 32, "HmacSHA256", 0)))
    assert (staged.woken, staged.changes.take()) == (1, None)
