"""The controller's role: won and lost, fenced, resigned, read anew after a failure; and its thread."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from pkafka.coordination.embedded import EmbeddedStore
from pkafka.coordination.store import ConnectionLossError, MultiOutcome, Op, SetOp
from pkafka.model import TopicPartition
from pkafka.protocol.messages.stop_replica import StopReplicaResponse
from pkafka.server.controller import nodes
from pkafka.server.controller.controller import RELOAD_BACKOFF_MS
from pkafka.server.controller.events import Shutdown, StopReplicaAnswered
from pkafka.server.controller.state_store import (
    ControllerMovedError,
    StateStore,
    remove_dead_controller,
    stand_for_election,
)
from tests.unit.server.controller.world import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.close()


def test_one_wins_and_the_epoch_grows(world: World) -> None:
    first, second = world.start_controller(1), world.start_controller(2)
    assert (first.is_active, second.is_active) == (True, False)
    assert second.active_controller_id == 1
    world.crash_controller(1)
    assert second.is_active
    assert second.context.epoch == 2
    assert world.store.get(nodes.CONTROLLER_EPOCH)[0] == b"2"


def test_a_stop_gives_the_role_up(world: World) -> None:
    first, second = world.start_controller(1), world.start_controller(2)
    first._queue.put(Shutdown())
    world.settle()
    assert (first.is_active, second.is_active) == (False, True)


def test_the_process_after_a_crash_takes_the_role_of_its_session_over(world: World) -> None:
    world.start_broker(1)
    world.start_controller(1)
    del world.controllers[1]  # killed; the session lives on, and /controller with it
    again = world.start_controller(1)
    assert again.is_active
    assert again.context.epoch == 2


def test_a_reply_that_is_lost_is_not_an_election_lost(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    multi = EmbeddedStore.multi

    def lose_reply(store: EmbeddedStore, ops: Sequence[Op]) -> object:
        multi(store, ops)
        raise ConnectionLossError

    monkeypatch.setattr(EmbeddedStore, "multi", lose_reply)
    won = stand_for_election(world.store, 5, 0)
    assert won is not None
    assert won.epoch == 1
    assert won.epoch_version == world.store.get(nodes.CONTROLLER_EPOCH)[1].version


def test_writes_of_an_epoch_that_is_over_are_refused(world: World) -> None:
    won = stand_for_election(world.store, 5, 0)
    assert won is not None
    states = StateStore(world.store, epoch=won.epoch, epoch_version=won.epoch_version)
    world.store.create("/admin/delete_topics/t", b"")
    world.store.multi([SetOp(nodes.CONTROLLER_EPOCH, b"9")])
    with pytest.raises(ControllerMovedError):
        states.delete_topic("t")
    assert world.store.exists("/admin/delete_topics/t") is not None


def test_a_write_without_an_answer_makes_the_controller_read_anew(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.start_broker(1)
    controller = world.start_controller(1)
    multi_many = EmbeddedStore.multi_many

    def lose(store: EmbeddedStore, transactions: Sequence[Sequence[Op]]) -> list[MultiOutcome]:
        multi_many(store, transactions)
        return [ConnectionLossError() for _ in transactions]

    with monkeypatch.context() as patch:
        patch.setattr(EmbeddedStore, "multi_many", lose)
        world.create_topic("t", {0: (1,)})
    assert TopicPartition("t", 0) not in controller.context.leadership
    world.clock.advance(ms=RELOAD_BACKOFF_MS)
    controller.drain()
    world.settle()
    assert controller.is_active
    assert controller.context.epoch == 1
    assert controller.context.leadership[TopicPartition("t", 0)].leader == 1
    assert world.brokers.caches[1].leader_of("t", 0) == 1


def test_one_damaged_topic_does_not_take_the_others_down(world: World) -> None:
    world.start_broker(1)
    world.store.create(nodes.topic("broken"), b"{no json")
    world.create_topic("good", {0: (1,)})
    world.start_controller(1)
    assert world.brokers.caches[1].leader_of("good", 0) == 1


def test_a_topic_of_an_old_kafka_gets_an_id(world: World) -> None:
    world.start_broker(1)
    world.store.create(nodes.topic("old"), b'{"version":1,"partitions":{"0":[1]}}')
    world.start_controller(1)
    topic_id, _ = nodes.decode_topic(world.store.get(nodes.topic("old"))[0])
    assert topic_id != bytes(16)
    assert world.brokers.caches[1].topic_id("old") == topic_id


def test_an_answer_to_an_earlier_epoch_is_ignored(world: World) -> None:
    world.start_broker(1)
    world.create_topic("t", {0: (1,)})
    controller = world.start_controller(1)
    world.brokers.silent_deletes = True
    world.delete_topic("t")
    partition = TopicPartition("t", 0)
    for epoch, gone in ((0, False), (1, True)):
        controller._queue.put(StopReplicaAnswered(1, epoch, (partition,), StopReplicaResponse()))
        world.settle()
        assert (world.store.exists(nodes.topic("t")) is None) is gone


def test_a_broker_that_cannot_delete_is_asked_again_when_it_comes_back(world: World) -> None:
    world.start_broker(1)
    world.create_topic("t", {0: (1,)})
    world.start_controller(1)
    world.brokers.failing.add((1, TopicPartition("t", 0)))
    world.delete_topic("t")
    assert world.store.exists("/admin/delete_topics/t") is not None
    world.brokers.failing.clear()
    world.stop_broker(1)
    world.start_broker(1)
    assert world.store.exists("/admin/delete_topics/t") is None
    assert world.store.exists(nodes.topic("t")) is None


def test_the_thread_works_and_ends(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.start_broker(1)
    threaded = world.start_controller(1)
    world.crash_controller(1)
    threaded.start(world.store)
    try:
        assert threaded.submit(lambda: threaded.is_active).result(10) is True
        with pytest.raises(ZeroDivisionError):
            threaded.submit(lambda: 1 // 0).result(10)
        world.create_topic("t", {0: (1,)})
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline and 1 not in world.brokers.caches:
            threaded.submit(int).result(10)
        while time.monotonic() < deadline and not world.brokers.caches[1].has_leader("t", 0):
            threaded.submit(int).result(10)
        assert world.brokers.caches[1].has_leader("t", 0)
    finally:
        threaded.stop()
    assert world.store.exists(nodes.CONTROLLER) is None
    world.close()


def test_a_topic_stays_where_topics_are_not_deleted(tmp_path: Path) -> None:
    world = World(tmp_path, **{"delete.topic.enable": "false"})
    try:
        world.start_broker(1)
        world.start_controller(1)
        world.create_topic("t", {0: (1,)})
        world.delete_topic("t")
        assert world.store.exists(f"{nodes.DELETE_TOPICS}/t") is None
        world.crash_controller(1)
        world.delete_topic("t")
        world.start_controller(1)
        assert world.store.exists(f"{nodes.DELETE_TOPICS}/t") is None
        assert world.brokers.caches[1].leader_of("t", 0) == 1
        assert not any("delete" in line for line in world.take_lines())
    finally:
        world.close()


def test_no_partitions_are_added_to_a_topic_that_is_being_deleted(world: World) -> None:
    world.start_broker(1)
    world.start_controller(1)
    world.create_topic("t", {0: (1,)})
    world.brokers.silent_deletes = True
    world.delete_topic("t")
    world.take_lines()
    world.create_topic("t", {0: (1,), 1: (1,)})
    assert nodes.decode_topic(world.store.get(nodes.topic("t"))[0])[1].keys() == {0}
    assert world.store.exists(nodes.partition(TopicPartition("t", 1))) is None
    assert world.take_lines() == []


def fail_log_dir(world: World, broker: int) -> None:
    world.store.create(
        f"{nodes.LOG_DIR_NOTIFICATIONS}/log_dir_event_",
        b'{"version":1,"broker":%d,"event":1}' % broker,
        sequential=True,
    )
    world.settle()


def test_replicas_of_a_failed_disk_count_again_when_it_is_mended(world: World) -> None:
    for broker in (1, 2):
        world.start_broker(broker)
    controller = world.start_controller(1)
    world.create_topic("t", {0: (2, 1)})
    partition = TopicPartition("t", 0)
    world.brokers.failing.add((2, partition))
    fail_log_dir(world, 2)
    assert world.store.children(nodes.LOG_DIR_NOTIFICATIONS) == []
    assert not controller.context.is_online(partition, 2)
    world.brokers.failing.clear()
    fail_log_dir(world, 2)  # another one: every replica there is asked for
    assert world.store.children(nodes.LOG_DIR_NOTIFICATIONS) == []
    assert controller.context.is_online(partition, 2)
    # And when that disk fails again it is noticed again.
    world.brokers.failing.add((2, partition))
    fail_log_dir(world, 2)
    assert not controller.context.is_online(partition, 2)


def write_isr(world: World, isr: tuple[int, ...]) -> None:
    """As leaders from before Kafka 2.7: into the state first, and then a notification."""
    path = nodes.partition_state(TopicPartition("t", 0))
    data, stat = world.store.get(path)
    now = nodes.decode_leadership(data, stat.version)
    world.store.set(path, nodes.encode_leadership(now._replace(isr=isr)))
    told = b'{"version":1,"partitions":[{"topic":"t","partition":0},{"topic":"gone","partition":3}]}'
    world.store.create(f"{nodes.ISR_NOTIFICATIONS}/isr_change_", told, sequential=True)
    world.settle()


def test_isrs_that_leaders_wrote_themselves_are_told_and_their_notifications_removed(world: World) -> None:
    for broker in (1, 2):
        world.start_broker(broker)
    controller = world.start_controller(1)
    world.create_topic("t", {0: (2, 1)})
    for isr in ((2,), (2, 1)):
        world.take_lines()
        write_isr(world, isr)
        assert controller.context.leadership[TopicPartition("t", 0)].isr == isr
        text = " ".join(map(str, isr))
        assert world.take_lines() == [
            f"  to {broker} UpdateMetadata epoch=1: live=[1 2], t-0 leader=2 epoch=0 isr=[{text}]"
            for broker in (1, 2)
        ]
        assert world.store.children(nodes.ISR_NOTIFICATIONS) == []


def test_notifications_that_no_controller_saw_are_removed_by_the_next(world: World) -> None:
    for broker in (1, 2):
        world.start_broker(broker)
    world.start_controller(1)
    world.create_topic("t", {0: (2, 1)})
    world.crash_controller(1)
    write_isr(world, (2,))
    fail_log_dir(world, 2)
    world.start_controller(1)
    assert world.store.children(nodes.ISR_NOTIFICATIONS) == []
    assert world.store.children(nodes.LOG_DIR_NOTIFICATIONS) == []
    assert world.controllers[1].context.leadership[TopicPartition("t", 0)].isr == (2,)


def test_a_dead_broker_is_buried_in_the_life_in_which_it_died(world: World) -> None:
    for broker in (1, 2):
        world.start_broker(broker)
    controller = world.start_controller(1)
    died = controller.context.broker_epochs[2]
    world.stop_broker(2)
    world.start_broker(2)
    assert controller.context.broker_epochs[2] > died
    controller.office().bury_broker(2, died)
    world.settle()
    assert controller.context.live_brokers.keys() == {1, 2}
    controller.office().bury_broker(2, controller.context.broker_epochs[2])
    world.settle()
    assert controller.context.live_brokers.keys() == {1}
    controller.office().bury_broker(2, died)  # nothing is left of it


def test_a_dead_controller_loses_the_term_of_office_in_which_it_died(world: World) -> None:
    world.start_controller(1)
    died = world.store.get(nodes.CONTROLLER)[1].czxid
    world.crash_controller(1)
    remove_dead_controller(world.store, 1, died)  # nobody has the role
    world.start_controller(1)
    again = world.store.get(nodes.CONTROLLER)[1].czxid
    for broker, czxid in ((1, died), (2, again)):
        remove_dead_controller(world.store, broker, czxid)
        assert world.store.exists(nodes.CONTROLLER) is not None
    remove_dead_controller(world.store, 1, again)
    world.settle()
    assert world.store.get(nodes.CONTROLLER)[1].czxid > again
