"""The admin client's calls about groups, on both systems."""

from pkafka.clients.admin.results import GroupState, GroupType
from pkafka.clients.offsets import OffsetAndMetadata
from pkafka.errors import ErrorCode
from pkafka.model import TopicPartition
from tests.interop.conftest import System
from tests.interop.members import member
from tests.talk import Talk, code_of, good, wait_for


def test_offsets_are_stored_read_and_deleted(talk: Talk, topic: str) -> None:
    talk.create(topic, 2)
    group, admin = f"g-{topic}", talk.admin
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    nowhere = TopicPartition(f"{topic}-nowhere", 0)
    outcomes = admin.alter_group_offsets(
        group, {first: OffsetAndMetadata(3, "why", 0), nowhere: OffsetAndMetadata(1)}
    )
    assert outcomes[first] is None
    assert code_of(outcomes[nowhere]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    found = admin.list_group_offsets({group: None, f"{group}-unknown": None, f"{group}-other": [second]})
    assert found[group] == {first: OffsetAndMetadata(3, "why", 0)}
    assert found[f"{group}-unknown"] == {}
    assert found[f"{group}-other"] == {second: None}
    assert good(admin.list_group_offsets({group: [first, second]}, require_stable=True)[group]) == {
        first: OffsetAndMetadata(3, "why", 0),
        second: None,
    }
    deleted = admin.delete_group_offsets(group, [first, nowhere])
    assert deleted[first] is None
    assert code_of(deleted[nowhere]) in (None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert good(admin.list_group_offsets({group: None})[group]) == {}
    missing = admin.delete_group_offsets(f"{group}-unknown", [first])
    assert code_of(missing[first]) is ErrorCode.GROUP_ID_NOT_FOUND


def test_one_group_at_a_time_for_older_brokers(talk: Talk, topic: str) -> None:
    talk.create(topic)
    partition = TopicPartition(topic, 0)
    groups = [f"{topic}-{number}" for number in range(3)]
    for number, group in enumerate(groups):
        good(talk.admin.alter_group_offsets(group, {partition: OffsetAndMetadata(number)})[partition])
    alone = {
        group: talk.admin._fetch_one(group, [partition], require_stable=True, timeout_ms=None)[group]
        for group in groups
    }
    assert alone == talk.admin.list_group_offsets({group: [partition] for group in groups})


def test_groups_are_listed_and_described(talk: Talk, system: System, topic: str) -> None:
    talk.create(topic, 3)
    group, empty, admin = f"g-{topic}", f"e-{topic}", talk.admin
    partition = TopicPartition(topic, 0)
    good(admin.alter_group_offsets(empty, {partition: OffsetAndMetadata(0)})[partition])
    with member(system.bootstrap, group, topic, client_id="me") as member_id:
        wait_for(lambda: good(admin.describe_groups([group])[group]).state is GroupState.STABLE)
        described = admin.describe_groups(
            [group, empty, f"{group}-unknown"], include_authorized_operations=True
        )
        active = good(described[group])
        assert (active.protocol_type, active.assignor, active.type) == (
            "consumer",
            "range",
            GroupType.CLASSIC,
        )
        assert f"{active.coordinator.host}:{active.coordinator.port}" == system.bootstrap
        assert active.authorized_operations is not None
        (only,) = active.members
        assert (only.member_id, only.group_instance_id, only.client_id) == (member_id, None, "me")
        assert only.client_host == "/127.0.0.1"
        assert only.assignment == tuple(TopicPartition(topic, number) for number in range(3))
        assert good(described[empty]).state is GroupState.EMPTY
        assert good(described[empty]).members == ()
        assert good(described[f"{group}-unknown"]).state is GroupState.DEAD
        listed = {each.group_id: each for each in admin.list_groups().groups}
        assert (listed[group].protocol_type, listed[group].state) == ("consumer", GroupState.STABLE)
        assert (listed[empty].protocol_type, listed[empty].state) == ("", GroupState.EMPTY)
        assert listed[empty].is_consumer_group
        stable = {each.group_id for each in admin.list_groups(states=[GroupState.STABLE]).groups}
        assert (group in stable, empty in stable) == (True, False)
        assert group in {each.group_id for each in admin.list_groups(types=[GroupType.CLASSIC]).groups}
        assert admin.list_groups(types=[GroupType.CONSUMER]).groups == ()


def test_a_group_with_members_is_not_changed(talk: Talk, system: System, topic: str) -> None:
    talk.create(topic)
    group, admin = f"g-{topic}", talk.admin
    partition = TopicPartition(topic, 0)
    with member(system.bootstrap, group, topic):
        outcomes = admin.delete_groups([group, f"{group}-unknown"])
        assert code_of(outcomes[group]) is ErrorCode.NON_EMPTY_GROUP
        assert code_of(outcomes[f"{group}-unknown"]) is ErrorCode.GROUP_ID_NOT_FOUND
        altered = admin.alter_group_offsets(group, {partition: OffsetAndMetadata(0)})
        assert code_of(altered[partition]) is ErrorCode.UNKNOWN_MEMBER_ID
        deleted = admin.delete_group_offsets(group, [partition])
        assert code_of(deleted[partition]) is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    wait_for(lambda: good(admin.describe_groups([group])[group]).state is not GroupState.STABLE)
    admin.alter_group_offsets(group, {partition: OffsetAndMetadata(0)})
    assert admin.delete_groups([group]) == {group: None}
    assert group not in {each.group_id for each in admin.list_groups().groups}


def test_members_are_sent_away(talk: Talk, system: System, topic: str) -> None:
    talk.create(topic)
    group, admin = f"g-{topic}", talk.admin
    with member(system.bootstrap, group, topic, group_instance_id="one"):
        outcomes = admin.remove_members(group, ["one", "two"], reason="a test")
        assert outcomes["one"] is None
        assert code_of(outcomes["two"]) is ErrorCode.UNKNOWN_MEMBER_ID
    # Another group: where the static member found out before it ended, it has joined its own again, and stays there.
    with member(system.bootstrap, f"{group}-2", topic) as member_id:
        assert admin.remove_members(f"{group}-2") == {member_id: None}
    assert admin.remove_members(f"{group}-unknown") == {}
