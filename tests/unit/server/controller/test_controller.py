"""The controller's role: won and lost, fenced, resigned, read anew after a failure; and its thread."""

import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from pkafka.coordination.embedded import EmbeddedStore
from pkafka.coordination.store import ConnectionLossError, MultiOutcome, Op, SetOp
from pkafka.model import TopicPartition
from pkafka.server.controller import nodes
from pkafka.server.controller.controller import RELOAD_BACKOFF_MS
from pkafka.server.controller.events import Shutdown
from pkafka.server.controller.state_store import (
    ControllerMovedError,
    StateStore,
    remove_dead_controller,
    stand_for_election,
)
from tests.unit.server.controller.world import World


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


def test_the_thread_works_and_ends(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.start_broker(1)
    threaded = world.start_controller(1)
    world.crash_controller(1)
    threaded.start(world.store)
    try:
        assert threaded.submit(lambda: threaded.is_active).result(60) is True
        with pytest.raises(ZeroDivisionError):
            threaded.submit(lambda: 1 // 0).result(60)
        world.create_topic("t", {0: (1,)})
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and 1 not in world.brokers.caches:
            threaded.submit(int).result(60)
        while time.monotonic() < deadline and not world.brokers.caches[1].has_leader("t", 0):
            threaded.submit(int).result(60)
        assert world.brokers.caches[1].has_leader("t", 0)
    finally:
        threaded.stop()
    assert world.store.exists(nodes.CONTROLLER) is None
    world.close()


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
