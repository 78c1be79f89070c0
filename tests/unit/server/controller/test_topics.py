"""What the controller does about topics: damaged ones, old ones, such as are deleted or grow."""

from pathlib import Path

from pkafka.model import TopicPartition
from pkafka.protocol.messages.stop_replica import StopReplicaResponse
from pkafka.server.controller import nodes
from pkafka.server.controller.events import StopReplicaAnswered
from tests.unit.server.controller.world import World


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
