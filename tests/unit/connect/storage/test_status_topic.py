"""Statuses that the brokers did not take: which are written again."""

import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from pkafka.clients.producer.callbacks import Callback
from pkafka.connect.distributed.cluster_statuses import ClusterStatuses
from pkafka.connect.states import State, TaskName
from pkafka.connect.storage import status_topic
from pkafka.connect.storage.config_state import ClusterConfig
from pkafka.connect.storage.status_topic import StatusTopic
from pkafka.connect.storage.statuses import ConnectorStatus, Status, TaskStatus, TopicStatus, status_record
from pkafka.connect.storage.topic_log import LogClients, LogTopic
from pkafka.errors import ApiError, ErrorCode

NAME = TaskName("c", 0)
LATER = ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
NEVER = ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
SOON_S = 30.0


class RefusingLog:
    """Takes nothing until it is told to; the test says when the answer to a write comes."""

    def __init__(
        self, topic: LogTopic, _clients: LogClients, consumed: Callable[[SimpleNamespace], None]
    ) -> None:
        self.topic = topic
        self._consumed = consumed
        self.sent: list[tuple[bytes, bytes | None]] = []
        self.callbacks: list[Callback] = []
        self.came = threading.Semaphore(0)

    def start(self) -> None:
        pass

    def close(self) -> None:
        pass

    def send(self, key: bytes, value: bytes | None, callback: Callback) -> None:
        self.sent.append((key, value))
        self.callbacks.append(callback)
        self.came.release()

    def answer(self, number: int, error: Exception | None) -> None:
        """Say what became of a write."""
        self.callbacks[number](None, error)  # type: ignore[arg-type]

    def have_read(self, status: Status) -> None:
        """Another worker's status comes out of the topic."""
        self.have_read_record(*status_record(status))

    def have_read_record(self, key: bytes, value: bytes | None) -> None:
        self._consumed(SimpleNamespace(key=key, value=value))

    def wait(self) -> None:
        """Until one more write has come."""
        assert self.came.acquire(timeout=SOON_S)


@pytest.fixture
def statuses(monkeypatch: pytest.MonkeyPatch) -> Iterator[StatusTopic]:
    monkeypatch.setattr(status_topic, "TopicLog", RefusingLog)
    found = StatusTopic(LogTopic("s", "status.storage.topic", "statuses"), LogClients({}, {}, {}))
    found.start()
    yield found
    found.stop()


@pytest.fixture
def log(statuses: StatusTopic) -> RefusingLog:
    found = statuses._log
    assert isinstance(found, RefusingLog)
    return found


def task(state: State, generation: int = 1) -> TaskStatus:
    return TaskStatus(NAME, state, "h:1", generation)


def let_retries_end(log: RefusingLog, statuses: StatusTopic) -> None:
    """Wait until no retry is under way: that of a last record goes behind all others."""
    while log.came.acquire(blocking=False):
        pass
    before = len(log.sent)
    statuses.put_topic(TopicStatus("t", "c", 0, 0))
    log.wait()
    log.answer(before, LATER)
    log.wait()
    assert log.sent[-1][0] == b"status-topic-t:connector-c"


def test_a_status_is_written_again_until_it_is_taken(statuses: StatusTopic, log: RefusingLog) -> None:
    statuses.put(task(State.RUNNING))
    for number in range(3):
        log.wait()
        log.answer(number, LATER if number < 2 else None)
    assert log.sent == [status_record(task(State.RUNNING))] * 3


def test_a_status_of_an_earlier_generation_is_not_written_again(
    statuses: StatusTopic, log: RefusingLog
) -> None:
    statuses.put(task(State.FAILED))
    statuses.put(task(State.RUNNING, 2))
    log.wait()
    log.wait()
    log.answer(0, LATER)
    log.answer(1, None)
    let_retries_end(log, statuses)
    assert log.sent[:2] == [status_record(task(State.FAILED)), status_record(task(State.RUNNING, 2))]
    assert len([each for each in log.sent if each[0] == b"status-task-c-0"]) == 2


def test_a_safe_status_is_not_written_again_after_another(statuses: StatusTopic, log: RefusingLog) -> None:
    statuses.put_safe(task(State.FAILED))
    statuses.put(task(State.RUNNING))
    log.wait()
    log.wait()
    log.answer(0, LATER)
    log.answer(1, LATER)  # this one is
    log.wait()
    assert log.sent[2:] == [status_record(task(State.RUNNING))]


def test_a_status_is_not_written_again_after_a_newer_one(statuses: StatusTopic, log: RefusingLog) -> None:
    """A task that starts anew while the leader of the topic changes is not said to be RESTARTING for good."""
    statuses.put(task(State.RESTARTING))
    statuses.put(task(State.RUNNING))
    log.answer(1, None)
    log.answer(0, LATER)
    let_retries_end(log, statuses)
    said = [value for key, value in log.sent if key == b"status-task-c-0"]
    assert said == [status_record(task(each))[1] for each in (State.RESTARTING, State.RUNNING)]


def test_what_is_refused_for_good_is_not_written_again(
    statuses: StatusTopic, log: RefusingLog, caplog: pytest.LogCaptureFixture
) -> None:
    statuses.put(task(State.RUNNING))
    log.wait()
    log.answer(0, NEVER)
    let_retries_end(log, statuses)
    assert len([each for each in log.sent if each[0] == b"status-task-c-0"]) == 1
    assert "Failed to write status update" in caplog.text


def of_another(state: State, generation: int) -> TaskStatus:
    return TaskStatus(NAME, state, "other:1", generation)


@pytest.mark.parametrize("state", [State.UNASSIGNED, State.FAILED, State.RUNNING])
def test_what_a_former_owner_says_late_is_put_right(
    statuses: StatusTopic, log: RefusingLog, state: State
) -> None:
    """A worker that was cut off gets rid of what it had to say when it is back: it hides what the owner has said."""
    statuses.put(task(State.RUNNING, 3))
    log.wait()
    log.answer(0, None)
    log.have_read(task(State.RUNNING, 3))
    log.have_read(of_another(state, 2))
    log.wait()
    log.answer(1, LATER)
    log.wait()
    assert log.sent == [status_record(task(State.RUNNING, 3))] * 3


def test_what_a_former_owner_says_late_of_a_connector_is_put_right(
    statuses: StatusTopic, log: RefusingLog
) -> None:
    statuses.put(ConnectorStatus("c", State.RUNNING, "h:1", 3))
    log.wait()
    log.have_read(ConnectorStatus("c", State.UNASSIGNED, "other:1", 2))
    log.wait()
    assert log.sent == [status_record(ConnectorStatus("c", State.RUNNING, "h:1", 3))] * 2


def test_who_is_no_owner_any_more_leaves_it_to_the_new_one(statuses: StatusTopic, log: RefusingLog) -> None:
    statuses.put(task(State.RUNNING, 3))
    log.have_read(of_another(State.RUNNING, 4))  # has taken over
    log.have_read(of_another(State.UNASSIGNED, 2))
    let_retries_end(log, statuses)
    statuses.put(task(State.RUNNING, 5))
    statuses.put_safe(task(State.UNASSIGNED, 5))  # is given away
    log.have_read(of_another(State.FAILED, 2))
    let_retries_end(log, statuses)
    said = [value for key, value in log.sent if key == b"status-task-c-0"]
    assert said == [
        status_record(each)[1]
        for each in (task(State.RUNNING, 3), task(State.RUNNING, 5), task(State.UNASSIGNED, 5))
    ]


def test_what_ends_after_its_connector_was_forgotten_is_forgotten_too(
    statuses: StatusTopic, log: RefusingLog
) -> None:
    """A worker that stops its tasks a little later than the leader forgets their connector leaves no ghost."""
    told: list[str] = []
    statuses.heard_of_an_end = lambda: told.append("end")
    cluster = ClusterStatuses(statuses, "h:1", lambda: 5, tracks_topics=False)
    log.have_read(ConnectorStatus("c", State.RUNNING, "other:1", 4))
    log.have_read(of_another(State.RUNNING, 4))
    cluster.forget_ended(ClusterConfig())
    assert log.sent == []  # runs still: its owner has the last word
    cluster.forget_all_but(ClusterConfig())
    gone = [(b"status-connector-c", None), (b"status-task-c-0", None)]
    assert log.sent == gone
    for key, _ in gone:
        log.have_read_record(key, None)
    assert told == []
    log.have_read(of_another(State.UNASSIGNED, 4))
    assert told == ["end"]
    cluster.forget_ended(ClusterConfig())
    assert log.sent == [*gone, (b"status-task-c-0", None)]


@pytest.mark.parametrize(
    "order", ["its connector is forgotten behind it", "it ends in the generation it began in"]
)
def test_the_last_word_of_a_task_that_is_no_more_counts_whatever_else_is_known(
    statuses: StatusTopic, log: RefusingLog, order: str
) -> None:
    log.have_read(ConnectorStatus("c", State.RUNNING, "w:1", 1))
    log.have_read(task(State.RUNNING))
    log.have_read(task(State.UNASSIGNED))
    if order == "its connector is forgotten behind it":
        # The two are in different partitions of the topic: what is read last need not be the later one.
        log.have_read(ConnectorStatus("c", State.DESTROYED, "w:1", 1))
        assert statuses.task(NAME) is None
    else:
        known = statuses.task(NAME)
        assert known is not None
        assert known.state is State.RUNNING, "as in Kafka"
    cluster = ClusterStatuses(statuses, "w:1", lambda: 1, tracks_topics=False)
    cluster.forget_ended(ClusterConfig())
    assert (task(State.RUNNING).key, None) in log.sent
    log.have_read(task(State.DESTROYED))
    sent = len(log.sent)
    cluster.forget_ended(ClusterConfig())
    assert len(log.sent) == sent
