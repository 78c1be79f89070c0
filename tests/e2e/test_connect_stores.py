"""The internal topics of a Connect cluster on a broker that stops, comes back, and changes its mind."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest

from pkafka.clients.admin import Admin
from pkafka.clients.admin.outcomes import Outcome
from pkafka.clients.admin.results import ResourceType
from pkafka.clients.admin.topic_results import CreatedTopic, NewTopic, TopicDescription
from pkafka.clients.producer import Producer
from pkafka.connect.distributed.config import distributed_config
from pkafka.connect.errors import ConfigError, ConnectError
from pkafka.connect.plugins import load_plugins
from pkafka.connect.states import State, Target, TaskName
from pkafka.connect.storage.config_state import Change, ConnectorChanged, RestartAsked, TasksChanged
from pkafka.connect.storage.config_topic import ConfigTopic, FencedError
from pkafka.connect.storage.offset_store import ConnectorOffsets
from pkafka.connect.storage.offset_topic import OffsetTopic, own_offset_topic
from pkafka.connect.storage.session_key import make_key
from pkafka.connect.storage.status_topic import StatusTopic
from pkafka.connect.storage.statuses import ConnectorStatus
from pkafka.connect.storage.topic_log import LogClients, LogTimeoutError, LogTopic, TopicLog, internal_clients
from pkafka.connect.worker_config import WorkerConfig
from pkafka.errors import ApiError, ErrorCode
from pkafka.testing import Broker, running_broker
from tests.connect_stores import worker_settings
from tests.talk import Talk, wait_for

SOON_S = 60.0
Stoppable = ConfigTopic | StatusTopic | OffsetTopic


def config_of(broker: Broker, name: str, **more: str) -> WorkerConfig:
    return distributed_config(worker_settings(broker.bootstrap, name, **more), load_plugins())


@contextmanager
def started(*stores: Stoppable) -> Iterator[None]:
    with ExitStack() as stack:
        for store in stores:
            store.start()
            stack.callback(store.stop)
        yield


def test_workers_share_what_the_leader_writes(broker: Broker, topic: str) -> None:
    config = config_of(broker, topic)
    told: list[Change] = []
    leader = ConfigTopic.of(config, lambda _change: None, client_id="a-")
    follower = ConfigTopic.of(config, told.append, client_id="b-")
    with started(leader, follower):
        leader.put_connector("c", {"name": "c"}, Target.PAUSED)
        leader.put_tasks("c", [{"n": "0"}, {"n": "1"}])
        leader.put_restart("c", only_failed=True, include_tasks=True)
        key = make_key("HmacSHA256", None, 0)
        leader.put_session_key(key)
        assert leader.snapshot().all_task_configs("c") == [{"n": "0"}, {"n": "1"}]
        follower.refresh(SOON_S)
        assert follower.snapshot() == leader.snapshot()
        assert follower.snapshot().session_key == key
    assert told[:3] == [
        ConnectorChanged("c"),
        TasksChanged("c", (TaskName("c", 0), TaskName("c", 1))),
        RestartAsked("c", only_failed=True, include_tasks=True),
    ]
    told.clear()
    with started(follower_later := ConfigTopic.of(config, told.append, client_id="b-")):
        assert follower_later.snapshot().target("c") is Target.PAUSED
    assert told == []  # what is old is no request


def test_the_topics_are_compacted_and_have_the_settings_of_the_worker(
    broker: Broker, topic: str, talk: Talk
) -> None:
    settings = {
        **worker_settings(broker.bootstrap, topic),
        "config.storage.partitions": "7",
        "config.storage.cleanup.policy": "delete",
        "config.storage.max.message.bytes": "2000000",
    }
    config = distributed_config(settings, load_plugins())
    with started(ConfigTopic.of(config, print, client_id=""), StatusTopic.of(config, client_id="")):
        pass
    with Admin({"bootstrap.servers": broker.bootstrap}) as admin:
        found = admin.describe_topics([f"{topic}-config", f"{topic}-status"])
    assert [len(each.partitions) for each in found.values() if isinstance(each, TopicDescription)] == [1, 5]
    configs = talk.described(ResourceType.TOPIC, f"{topic}-config")
    assert (configs["cleanup.policy"].value, configs["max.message.bytes"].value) == ("compact", "2000000")


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[Broker]:
    with running_broker(tmp_path / "broker", {"pkafka.workers": 1}) as broker:
        yield broker


def test_all_goes_on_after_the_broker_was_away(own_broker: Broker) -> None:
    config = config_of(own_broker, "g")
    told: list[Change] = []
    configs = ConfigTopic.of(config, told.append, client_id="a-")
    statuses, offsets = StatusTopic.of(config, client_id="a-"), OffsetTopic.of(config, client_id="a-")
    with started(configs, statuses, offsets):
        configs.put_connector("c", {"name": "c"})
        own_broker.stop()
        with pytest.raises(LogTimeoutError):
            configs.refresh(0.2)
        late = ConnectorStatus("c", State.RUNNING, "h:1", 1)
        statuses.put(late)
        writing = threading.Thread(target=partial(configs.put_connector, "d", {"name": "d"}))
        writing.start()
        own_broker.start()
        writing.join(SOON_S)
        assert not writing.is_alive()
        assert configs.snapshot().contains("d")
        wait_for(lambda: statuses.connector("c") == late, timeout_s=SOON_S)
        place = ConnectorOffsets(offsets, "c")
        place.store([({"file": "a"}, {"position": 1})])
        assert place.offset({"file": "a"}) == {"position": 1}
    assert told == [ConnectorChanged("c"), ConnectorChanged("d")]


def test_a_leader_that_was_fenced_writes_no_more(broker: Broker, topic: str) -> None:
    config = config_of(broker, topic, exactly_once_source_support="enabled")
    first, second = (ConfigTopic.of(config, lambda _: None, client_id=name) for name in ("a-", "b-"))
    with started(first, second):
        with pytest.raises(FencedError, match="without claiming write privileges first"):
            first.put_connector("c", {})
        first.claim_write_privileges()
        first.claim_write_privileges()
        first.put_connector("c", {"n": "1"})
        second.claim_write_privileges()
        with pytest.raises(FencedError, match="Failed to perform fencable send to config topic"):
            first.put_connector("c", {"n": "2"})
        second.put_tasks("c", [{}])
        first.put_target("c", Target.PAUSED)  # any worker may
        second.refresh(SOON_S)
        first.refresh(SOON_S)
        assert first.snapshot() == second.snapshot()
        assert first.snapshot().connector("c") == {"n": "1"}


def test_offsets_of_a_transaction_count_when_it_is_committed(broker: Broker, topic: str) -> None:
    config = config_of(broker, topic, exactly_once_source_support="enabled")
    clients = internal_clients(config, "t", read_committed=True)
    bootstrap = {"bootstrap.servers": broker.bootstrap}
    with Producer({**bootstrap, "transactional.id": f"{topic}-c-0"}) as producer:
        producer.init_transactions()
        mine = OffsetTopic(own_offset_topic(config, f"{topic}-own"), clients, SOON_S, producer)
        with started(mine):
            place = ConnectorOffsets(mine, "c")
            for position, commits in ((1, True), (2, False)):
                producer.begin_transaction()
                place.store([({"file": "a"}, {"position": position})])
                (producer.commit_transaction if commits else producer.abort_transaction)()
            assert place.offset({"file": "a"}) == {"position": 1}
        producer.begin_transaction()  # it is its owner's still
        producer.abort_transaction()


def test_a_worker_begins_while_transactions_are_open(broker: Broker, topic: str) -> None:
    """All workers were killed: nobody but their tasks ends the transactions that tasks have left behind."""
    config = config_of(broker, topic, exactly_once_source_support="enabled")
    bootstrap = {"bootstrap.servers": broker.bootstrap}
    workers = OffsetTopic.of(config, client_id="t-")
    with started(OffsetTopic.of(config, client_id="t-")):
        pass  # has made the topic
    with Producer({**bootstrap, "transactional.id": f"{topic}-c-0"}) as producer:
        producer.init_transactions()
        clients = internal_clients(config, "t", read_committed=True)
        task = OffsetTopic(own_offset_topic(config, f"{topic}-offset"), clients, SOON_S, producer)
        with started(task):
            producer.begin_transaction()
            ConnectorOffsets(task, "c").store([({"file": "a"}, {"position": 1})])
            begun = threading.Thread(target=lambda: workers.start(waits_for_transactions=False))
            begun.start()
            begun.join(SOON_S / 2)  # the transaction is open for a minute
            is_late = begun.is_alive()
            producer.commit_transaction()
            begun.join(SOON_S)
            try:
                assert not is_late
                assert ConnectorOffsets(workers, "c").offset({"file": "a"}) == {"position": 1}
            finally:
                workers.stop()


@contextmanager
def log_of(broker: Broker, topic: str, consumed: Callable[[object], object]) -> Iterator[TopicLog]:
    base = {"bootstrap.servers": broker.bootstrap}
    log = TopicLog(LogTopic(topic, "x.topic", "things", 3, 1), LogClients(base, base, base), consumed)
    try:
        yield log
    finally:
        log.close()


def test_a_record_that_cannot_be_taken_does_not_end_the_log(broker: Broker, topic: str) -> None:
    taken: list[object] = []

    def take(record: object) -> None:
        taken.append(record)
        raise ValueError("no")

    with log_of(broker, topic, take) as log:
        log.start()
        for _ in range(2):
            log.send(b"k", b"v")
            log.read_to_end(SOON_S)
    assert len(taken) == 2


def test_many_ask_for_the_end_at_once(broker: Broker, topic: str) -> None:
    seen: list[object] = []
    missing: list[int] = []

    def write(number: int) -> None:
        for index in range(20):
            key = f"{number}-{index}".encode()
            log.send(key, b"v")
            log.read_to_end(SOON_S)
            if key not in seen:
                missing.append(index)

    with log_of(broker, topic, lambda record: seen.append(record.key)) as log:  # type: ignore[attr-defined]
        log.start()
        threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join(SOON_S)
    assert (missing, len(seen)) == ([], 80)


def test_who_waits_for_a_log_that_is_closed_is_told(own_broker: Broker) -> None:
    refused: list[str] = []

    def wait() -> None:
        try:
            log.read_to_end(SOON_S)
        except ConnectError as error:
            refused.append(str(error))

    with log_of(own_broker, "x", print) as log:
        with pytest.raises(ConnectError, match="is not open"):
            log.send(b"k", b"v")
        log.start()
        own_broker.stop()
        waiting = threading.Thread(target=wait)
        began_s = time.monotonic()
        waiting.start()
        log.close()
        waiting.join(SOON_S)
        assert time.monotonic() - began_s < SOON_S
        assert len(refused) == 1
        with pytest.raises(ConnectError, match="is not open"):
            log.read_to_end(1)


def test_a_topic_that_loses_records_is_refused(broker: Broker, topic: str, talk: Talk) -> None:
    talk.create(f"{topic}-status")
    statuses = StatusTopic.of(config_of(broker, topic), client_id="a-")
    with pytest.raises(
        ConfigError, match=r"'status.storage.topic' property is required to have 'cleanup.policy=comp"
    ):
        statuses.start()


def test_a_topic_has_a_name(broker: Broker, topic: str) -> None:
    settings = {**worker_settings(broker.bootstrap, topic), "config.storage.topic": " "}
    config = distributed_config(settings, load_plugins())
    with pytest.raises(ConfigError, match="Must specify topic for connector configuration"):
        ConfigTopic.of(config, print, client_id="")


def test_a_topic_that_cannot_be_made_is_told(broker: Broker, topic: str) -> None:
    for patience_ms in ("300", "3000", "30000"):
        settings = {
            **worker_settings(broker.bootstrap, topic),
            "offset.storage.replication.factor": "3",
            "default.api.timeout.ms": patience_ms,
        }
        with pytest.raises(ConnectError, match="Error while attempting to create/find topic") as refused:
            OffsetTopic.of(distributed_config(settings, load_plugins()), client_id="").start()
        if isinstance(refused.value.__cause__, ApiError):
            break  # else no answer has come in time
    assert isinstance(refused.value.__cause__, ApiError)
    assert refused.value.__cause__.code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_a_worker_waits_for_brokers_that_are_about_to_start(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [ApiError(ErrorCode.INVALID_REPLICATION_FACTOR), ApiError(ErrorCode.REQUEST_TIMED_OUT)]
    really = Admin.create_topics

    def create(admin: Admin, new: list[NewTopic]) -> dict[str, Outcome[CreatedTopic]]:
        return {new[0].name: answers.pop(0)} if answers else really(admin, new)

    monkeypatch.setattr(Admin, "create_topics", create)
    with started(OffsetTopic.of(config_of(broker, topic), client_id="")):
        assert answers == []
