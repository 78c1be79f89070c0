"""What a controller counts of its work, under the names of Kafka's timers, whatever the cause of the work was."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pkafka.model import TopicPartition
from pkafka.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from pkafka.server.controller.events import Balance, Reload
from pkafka.server.controller.isr_requests import WantedIsr
from pkafka.server.controller.stats import ControllerStats, Work
from pkafka.server.handlers import list_partition_reassignments
from tests.unit.server.controller.test_office import T0, alter, controller, elect, shut_down
from tests.unit.server.controller.world import InlineControl, World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    for broker in (1, 2, 3):
        world.start_broker(broker)
    world.start_controller(1)
    world.create_topic("t", {0: (1, 2, 3), 1: (2, 3, 1)})
    yield world
    world.close()


def counts(world: World) -> dict[str, int]:
    """What was timed at all."""
    times = controller(world).stats.by_name()
    return {name.removesuffix("RateAndTimeMs"): each.count for name, each in times.items() if each.count}


def grown(world: World, act: Callable[[], object]) -> dict[str, int]:
    """What is timed meanwhile, but for answers of brokers."""
    before = counts(world)
    act()
    after = counts(world)
    after.pop("LeaderAndIsrResponseReceived", None)
    return {name: count - before.get(name, 0) for name, count in after.items() if count > before.get(name, 0)}


def test_an_office_that_begins_is_a_change_of_the_controller(world: World) -> None:
    assert counts(world)["ControllerChange"] >= 1
    assert counts(world)["TopicChange"] >= 1
    assert counts(world)["LeaderAndIsrResponseReceived"] >= 3
    # Reading everything anew is one, too, and the counts of before stay.
    controller(world)._queue.put(Reload())
    assert grown(world, world.settle) == {"ControllerChange": 1}
    controller(world)._queue.put(Balance())
    assert grown(world, world.settle) == {"AutoLeaderBalance": 1}


def test_brokers_that_go_and_come_are_elections(world: World) -> None:
    assert grown(world, lambda: world.stop_broker(1)) == {"LeaderElection": 1}
    assert world.state("t").startswith("t-0 leader=2 ")
    assert grown(world, lambda: world.start_broker(1)) == {"LeaderElection": 1}
    assert controller(world).stats.by_name()["LeaderElectionRateAndTimeMs"].total > 0
    assert controller(world).stats.unclean_elections == 0


def test_what_others_ask_for_counts_as_what_it_is(world: World) -> None:
    assert grown(world, lambda: alter(world, 1, WantedIsr((1, 2), 0, 0))) == {"IsrChange": 1}
    assert grown(world, lambda: shut_down(world, 2)) == {"ControlledShutdown": 1}
    assert grown(world, lambda: elect(world, [T0])) == {"ManualLeaderBalance": 1}
    moves = controller(world).office().reassignments
    assert grown(world, lambda: moves.begin(TopicPartition("t", 1), [3, 1])) == {"PartitionReassignment": 1}
    world.settle()  # what is written there and answered makes events of its own
    request = ListPartitionReassignmentsRequest(topics=None)
    listing = list_partition_reassignments.handle(InlineControl(world, 1), request, 0)
    assert grown(world, lambda: asyncio.run(listing)) == {"ListPartitionReassignment": 1}
    # What has no name at Kafka's controller is not timed.
    assert grown(world, lambda: asyncio.run(InlineControl(world, 1).run(int))) == {}


def test_a_deletion_and_a_setting(world: World) -> None:
    assert grown(world, lambda: world.delete_topic("t"))["TopicDeletion"] > 1  # with the answers of brokers
    for topic, name in (("t", "TopicUncleanLeaderElectionEnable"), (None, "UncleanLeaderElectionEnable")):
        controller(world).allow_unclean_election(topic)
        assert grown(world, world.settle) == {name: 1}


def test_leaders_that_lack_records_are_counted_on_their_own(world: World) -> None:
    alter(world, 1, WantedIsr((1,), 0, 0))
    world.stop_broker(1)
    assert controller(world).stats.unclean_elections == 0
    elect(world, [T0], unclean=True)
    assert world.state("t").startswith("t-0 leader=2 ")
    assert controller(world).stats.unclean_elections == 1


def test_work_within_work_is_part_of_it() -> None:
    stats = ControllerStats()
    with stats.timed(Work.BROKER_CHANGE), stats.timed(Work.REASSIGNMENT):
        pass
    with pytest.raises(ValueError, match="failed"), stats.timed(Work.BROKER_CHANGE):
        raise ValueError("failed")
    with stats.timed(Work.TOPIC_CHANGE):
        pass
    found = stats.by_name()
    assert found["LeaderElectionRateAndTimeMs"].count == 2
    assert found["PartitionReassignmentRateAndTimeMs"].count == 0
    assert found["TopicChangeRateAndTimeMs"].count == 1
