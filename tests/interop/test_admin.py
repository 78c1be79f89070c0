"""What the admin client asks of topics, configurations and directories, item by item, on both systems."""

import pytest

from pkafka.clients.admin.client_quotas import CLIENT_ID, IP, USER, QuotaFilter, QuotaMatch, quota_entity
from pkafka.clients.admin.results import (
    AlterOp,
    ConfigChange,
    ConfigResource,
    ConfigSource,
    ConfigType,
    ElectionType,
    ResourceType,
)
from pkafka.clients.admin.scram import ScramDeletion, ScramUpsertion
from pkafka.clients.errors import ClientError
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition, TopicPartitionReplica
from pkafka.net.scram import ScramMechanism
from pkafka.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tests.interop.conftest import System
from tests.talk import Talk, code_of, good, talking, wait_for


def test_topics_are_deleted_by_id(talk: Talk, topic: str) -> None:
    talk.create(topic)
    topic_id, nobodys = talk.topic_id(topic), b"\x01" * 16
    outcomes = talk.admin.delete_topic_ids([topic_id, nobodys])
    assert outcomes[topic_id] is None
    assert code_of(outcomes[nobodys]) is ErrorCode.UNKNOWN_TOPIC_ID
    wait_for(lambda: topic not in {each.name for each in talk.admin.list_topics()})


def test_configurations_of_many_are_outcomes_of_each(talk: Talk, topic: str) -> None:
    talk.create(topic, retention_ms=5_000)
    mine = ConfigResource(ResourceType.TOPIC, topic)
    missing = ConfigResource(ResourceType.TOPIC, f"{topic}-nowhere")
    broker, away, nonsense = (ConfigResource(ResourceType.BROKER, each) for each in ("0", "77", "x"))
    asked = [mine, missing, broker, away, nonsense]
    found = talk.admin.describe_configs(
        asked, keys=["retention.ms", "log.dirs"], include_documentation=True, timeout_ms=20_000
    )
    assert set(found) == set(asked)
    (retention,) = good(found[mine])
    assert (retention.value, retention.source) == ("5000", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert retention.type is ConfigType.LONG
    assert retention.documentation
    assert code_of(found[missing]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [each.name for each in good(found[broker])] == ["log.dirs"]
    assert code_of(found[away]) is ErrorCode.BROKER_NOT_AVAILABLE
    assert code_of(found[nonsense]) is ErrorCode.INVALID_REQUEST
    change = [ConfigChange("retention.ms", AlterOp.SET, "6000")]
    altered = talk.admin.alter_configs({mine: change, missing: change, away: change})
    assert altered[mine] is None
    assert code_of(altered[missing]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code_of(altered[away]) is ErrorCode.BROKER_NOT_AVAILABLE


def test_an_election_of_all_is_one_of_those_that_ever_had_a_leader(talk: Talk, topic: str) -> None:
    talk.create(topic)
    # On a broker that there is not: Kafka creates such a topic, and nobody ever leads its partition.
    nowhere = f"{topic}-nowhere"
    replicas = [CreatableReplicaAssignment(partition_index=0, broker_ids=[77])]
    new = CreatableTopic(name=nowhere, num_partitions=-1, replication_factor=-1, assignments=replicas)
    request = CreateTopicsRequest(topics=[new], timeout_ms=100)
    created = talk.admin.cluster.request(request, CreateTopicsResponse).topics[0]
    assert created.error_code == ErrorCode.REQUEST_TIMED_OUT
    try:
        for kind in ElectionType:
            found = talk.admin.elect_leaders(kind)
            assert not {partition for partition in found if partition.topic.startswith(topic)}
    finally:
        talk.admin.delete_topics([nowhere])


def test_elections_and_moves_of_single_partitions(talk: Talk, topic: str) -> None:
    talk.create(topic, 2)
    here, beyond = TopicPartition(topic, 1), TopicPartition(topic, 7)
    for kind in ElectionType:
        elected = talk.admin.elect_leaders(kind, [here, beyond])
        assert code_of(elected[here]) is ErrorCode.ELECTION_NOT_NEEDED
        assert code_of(elected[beyond]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert talk.admin.elect_leaders(kind) == {}
    begun = talk.admin.alter_partition_reassignments({here: [0], beyond: [0], TopicPartition(topic, 0): [77]})
    assert begun[here] is None
    assert code_of(begun[beyond]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    refused = begun[TopicPartition(topic, 0)]
    assert code_of(refused) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert "brokers that are not alive" in str(refused)
    wait_for(lambda: talk.admin.list_partition_reassignments([here, beyond]) == {})
    given_up = talk.admin.alter_partition_reassignments({here: None})
    assert code_of(given_up[here]) is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_replicas_go_to_directories(talk: Talk, topic: str, system: System) -> None:
    talk.create(topic)
    here, away = TopicPartitionReplica(topic, 0, 0), TopicPartitionReplica(topic, 0, 77)
    missing = TopicPartitionReplica(f"{topic}-nowhere", 0, 0)
    targets = {here: str(system.log_dir), away: "/d", missing: str(system.log_dir)}
    found = talk.admin.alter_replica_log_dirs(targets)
    assert found[here] is None
    assert code_of(found[away]) is ErrorCode.BROKER_NOT_AVAILABLE
    assert code_of(found[missing]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    nowhere = talk.admin.alter_replica_log_dirs({here: "/nowhere"})
    assert code_of(nowhere[here]) is ErrorCode.LOG_DIR_NOT_FOUND


def test_directories_of_brokers_that_are_away(talk: Talk, topic: str) -> None:
    talk.create(topic)
    found = talk.admin.describe_log_dirs([0, 77])
    (directory,) = _directories(found[0])
    assert topic in {each.partition.topic for each in directory.replicas}
    away = found[77]
    assert isinstance(away, ApiError)
    assert away.code is ErrorCode.BROKER_NOT_AVAILABLE


def _directories(outcome: object) -> list:  # type: ignore[type-arg]
    assert not isinstance(outcome, ApiError | ClientError), outcome
    assert isinstance(outcome, list)
    return outcome


def test_quotas_of_clients(system: System, topic: str) -> None:
    user, app = f"{topic}-é u/x", f"{topic}-app"
    alone, pair = quota_entity(user=user), quota_entity(user=user, client_id=app)
    defaults, address = quota_entity(user=user, client_id=None), quota_entity(ip="10.1.2.3")
    with talking(system.bootstrap) as talk:
        admin = talk.admin
        rates: dict[str, float | None] = {"producer_byte_rate": 1024.0, "controller_mutation_rate": 0.5}
        only_checked = admin.alter_client_quotas({alone: rates}, validate_only=True)
        assert only_checked == {alone: None}
        assert admin.describe_client_quotas([QuotaFilter(USER, QuotaMatch.EXACT, user)]) == {}
        nonsense = quota_entity(user=f"{topic}-2")
        outcomes = admin.alter_client_quotas(
            {
                alone: rates,
                pair: {"request_percentage": 20.0},
                defaults: {"controller_mutation_rate": 3.0},
                address: {"connection_creation_rate": 7.0},
                nonsense: {"nonsense": 1.0},
            }
        )
        assert [outcomes[each] for each in (alone, pair, defaults, address)] == [None] * 4
        assert code_of(outcomes[nonsense]) is ErrorCode.INVALID_REQUEST
        of_user = QuotaFilter(USER, QuotaMatch.EXACT, user)
        assert admin.describe_client_quotas([of_user]) == {
            alone: rates,
            pair: {"request_percentage": 20.0},
            defaults: {"controller_mutation_rate": 3.0},
        }
        assert admin.describe_client_quotas([of_user], strict=True) == {alone: rates}
        any_client = QuotaFilter(CLIENT_ID)
        assert set(admin.describe_client_quotas([of_user, any_client], strict=True)) == {pair, defaults}
        no_client = QuotaFilter(CLIENT_ID, QuotaMatch.DEFAULT)
        assert set(admin.describe_client_quotas([of_user, no_client], strict=True)) == {defaults}
        assert address in admin.describe_client_quotas([QuotaFilter(IP)])
        gone = admin.alter_client_quotas(
            {
                alone: dict.fromkeys(rates),
                pair: {"request_percentage": None},
                defaults: {"controller_mutation_rate": None},
                address: {"connection_creation_rate": None},
            }
        )
        assert set(gone.values()) == {None}
        assert admin.describe_client_quotas([of_user]) == {}
        with pytest.raises(ApiError) as refused:
            admin.describe_client_quotas([QuotaFilter("nonsense")])
        assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_scram_credentials_of_users(system: System, topic: str) -> None:
    one, two, nobody = f"{topic}-é 1", f"{topic}-2", f"{topic}-nobody"
    strong, plain = ScramMechanism.SCRAM_SHA_512, ScramMechanism.SCRAM_SHA_256
    with talking(system.bootstrap) as talk:
        admin = talk.admin
        outcomes = admin.alter_user_scram_credentials(
            [
                ScramUpsertion(user=one, mechanism=plain, password=b"hush"),
                ScramUpsertion(user=one, mechanism=strong, password=b"hush", iterations=8192),
                ScramUpsertion(user=two, mechanism=plain, password=b"hush", iterations=100),
                ScramDeletion(user=nobody, mechanism=plain),
                ScramUpsertion(user="", mechanism=plain, password=b"hush"),
                ScramUpsertion(user=f"{topic}-3", mechanism=plain, password=b""),
            ]
        )
        assert outcomes[one] is None
        assert code_of(outcomes[two]) is ErrorCode.UNACCEPTABLE_CREDENTIAL
        assert code_of(outcomes[nobody]) is ErrorCode.RESOURCE_NOT_FOUND
        assert code_of(outcomes[""]) is ErrorCode.UNACCEPTABLE_CREDENTIAL
        assert str(outcomes[f"{topic}-3"]).endswith("Password must not be empty")
        found = admin.describe_user_scram_credentials([one, nobody])
        assert set(good(found[one])) == {(plain, 4096), (strong, 8192)}
        assert code_of(found[nobody]) is ErrorCode.RESOURCE_NOT_FOUND
        assert one in admin.describe_user_scram_credentials()
        gone = [ScramDeletion(user=one, mechanism=each) for each in (plain, strong)]
        assert admin.alter_user_scram_credentials(gone) == {one: None}
        assert code_of(admin.describe_user_scram_credentials([one])[one]) is ErrorCode.RESOURCE_NOT_FOUND
