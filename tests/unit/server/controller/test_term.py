"""What a term of office begins with, and notifications of ISRs."""

from pkafka.model import TopicPartition
from pkafka.server.controller import nodes
from tests.unit.server.controller.world import World


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
    world.fail_log_dir(2)
    world.start_controller(1)
    assert world.store.children(nodes.ISR_NOTIFICATIONS) == []
    assert world.store.children(nodes.LOG_DIR_NOTIFICATIONS) == []
    assert world.controllers[1].context.leadership[TopicPartition("t", 0)].isr == (2,)
