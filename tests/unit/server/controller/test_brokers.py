"""What the controller does about brokers: their log directories."""

from pkafka.model import TopicPartition
from pkafka.server.controller import nodes
from tests.unit.server.controller.world import World


def test_replicas_of_a_failed_disk_count_again_when_it_is_mended(world: World) -> None:
    for broker in (1, 2):
        world.start_broker(broker)
    controller = world.start_controller(1)
    world.create_topic("t", {0: (2, 1)})
    partition = TopicPartition("t", 0)
    world.brokers.failing.add((2, partition))
    world.fail_log_dir(2)
    assert world.store.children(nodes.LOG_DIR_NOTIFICATIONS) == []
    assert not controller.context.is_online(partition, 2)
    world.brokers.failing.clear()
    world.fail_log_dir(2)  # another one: every replica there is asked for
    assert world.store.children(nodes.LOG_DIR_NOTIFICATIONS) == []
    assert controller.context.is_online(partition, 2)
    # And when that disk fails again it is noticed again.
    world.brokers.failing.add((2, partition))
    world.fail_log_dir(2)
    assert not controller.context.is_online(partition, 2)
