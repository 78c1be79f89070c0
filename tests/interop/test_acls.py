"""What a client may do by ACLs: every request under many sets of rules has Apache Kafka's answer."""

import itertools
import random
import re
from collections.abc import Iterator
from typing import Any, Final

import pytest

from pkafka.errors import ErrorCode
from pkafka.protocol.api import ApiKey
from pkafka.protocol.messages.describe_groups import DescribeGroupsRequest
from pkafka.protocol.messages.find_coordinator import FindCoordinatorRequest
from pkafka.protocol.messages.init_producer_id import InitProducerIdRequest
from pkafka.security.acl import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from tests.acl_rules import ANONYMOUS, OTHER, SUBJECT, Rule, set_rules
from tests.differences import differences
from tests.interop import acl_requests, test_every_api
from tests.interop.conftest import System
from tests.interop.guarded import ask_as_subject, guarded_systems
from tests.interop.test_every_api import GROUP, REQUESTS, THERE, TRANSACTIONAL_ID, comparable
from tests.raw_client import RawClient

NAMES: Final = {
    ResourceType.TOPIC: THERE,
    ResourceType.GROUP: GROUP,
    ResourceType.CLUSTER: CLUSTER_NAME,
    ResourceType.TRANSACTIONAL_ID: TRANSACTIONAL_ID,
}
_A_REQUEST: Final = re.compile(r"Request .* is not authorized\.", re.DOTALL)
ALL: Final = [Rule(kind, name, Operation.ALL) for kind, name in NAMES.items()]


def _one_each() -> Iterator[tuple[str, list[Rule]]]:
    """One thing is allowed; everything is allowed but that."""
    for kind, name in NAMES.items():
        for operation in SUPPORTED_OPERATIONS[kind]:
            what = f"{operation.name.lower()}-{kind.name.lower()}"
            yield f"only-{what}", [Rule(kind, name, operation)]
            yield f"all-but-{what}", [*ALL, Rule(kind, name, operation, Permission.DENY)]


def _scenarios() -> Iterator[tuple[str, list[Rule]]]:
    yield "nothing", []
    yield "all", ALL
    yield from _one_each()
    topic, group, cluster = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
    transaction, deny = ResourceType.TRANSACTIONAL_ID, Permission.DENY
    prefixed = PatternType.PREFIXED
    read, write, everything = Operation.READ, Operation.WRITE, Operation.ALL
    reads = [Rule(topic, THERE, read), Rule(group, GROUP, read)]
    writes = [Rule(topic, THERE, write), Rule(transaction, TRANSACTIONAL_ID, write)]
    yield "reads", reads
    yield "writes", writes
    yield "reads-and-writes", [*reads, *writes]
    yield "writes-and-reads-group", [*writes, Rule(group, GROUP, read)]
    every = [Rule(kind, "*", everything) for kind in NAMES if kind is not cluster]
    yield "every-name", every
    yield "every-name-and-cluster", [*every, Rule(cluster, CLUSTER_NAME, everything)]
    prefixes = [Rule(topic, "every-", everything, kind=prefixed), Rule(group, "e", everything, kind=prefixed)]
    yield "prefixes", prefixes
    yield "prefixes-but-one", [*prefixes, Rule(topic, THERE, write, deny)]
    yield "all-but-a-prefix", [*ALL, Rule(topic, "ev", read, deny, kind=prefixed)]
    yield "all-but-every-name", [*ALL, Rule(topic, "*", Operation.DESCRIBE, deny)]
    yield "every-user", [one._replace(principal="User:*") for one in ALL]
    yield "another-user", [one._replace(principal="User:bob") for one in ALL]
    yield (
        "every-user-but-one",
        [
            *(one._replace(principal="User:*") for one in ALL),
            Rule(topic, THERE, everything, deny),
        ],
    )
    yield "another-host", [one._replace(host=OTHER) for one in ALL]
    yield "write-to-some-prefix", [Rule(topic, "x", write, kind=prefixed)]
    yield (
        "write-to-no-prefix",
        [Rule(topic, "xy", write, kind=prefixed), Rule(topic, "x", write, deny, kind=prefixed)],
    )


SCENARIOS: Final = dict(_scenarios())
QUICK: Final = frozenset(
    {"nothing", "reads-and-writes", "prefixes-but-one", "all-but-read-group", "only-describe-cluster"}
)
"""These are compared with each change; all of them every night."""


@pytest.fixture(scope="module")
def guarded(kafka_classpath: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[System]]:
    """Both systems, with what the requests name."""
    with guarded_systems(tmp_path_factory.mktemp("guarded"), kafka_classpath) as systems:
        for system in systems:
            test_every_api.prepare(system)
            acl_requests.prepare(system)
        yield systems


def masked(answer: Any) -> Any:
    """Kafka puts the whole request into the text of a refusal."""
    if isinstance(answer, dict):
        return {name: masked(value) for name, value in answer.items()}
    if isinstance(answer, list):
        return [masked(one) for one in answer]
    return _A_REQUEST.sub("Request ... is not authorized.", answer) if isinstance(answer, str) else answer


def _answer(system: System, key: ApiKey, version: int) -> Any:
    answer = masked(comparable(ask_as_subject(system, REQUESTS[key](version), version)))
    if key is ApiKey.API_VERSIONS:
        answer["api_keys"] = []  # the other test compares them
    if key is ApiKey.UPDATE_FEATURES:
        answer["results"].sort(key=str)
    return answer


each_scenario: Final = pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.nightly], id=name) for name in SCENARIOS],
)


@each_scenario
def test_every_answer_is_kafkas(guarded: list[System], name: str) -> None:
    answers: list[dict[str, Any]] = []
    for system in guarded:
        set_rules(system.bootstrap, SCENARIOS[name])
        of_system = {}
        for case in test_every_api.cases():
            key, version = case.values
            of_system[f"{key.name} v{version}"] = _answer(system, key, version)
        answers.append(of_system)
    _assert_same(answers)


@each_scenario
def test_what_is_hidden_is_hidden_as_by_kafka(guarded: list[System], name: str) -> None:
    answers: list[dict[str, Any]] = []
    for system in guarded:
        set_rules(system.bootstrap, SCENARIOS[name])
        ids = acl_requests.Ids(system)
        of_system = {}
        for case_name, build in acl_requests.REQUESTS.items():
            answer = masked(comparable(ask_as_subject(system, *build(ids))))
            if case_name == "list transactions":
                answer["transaction_states"] = [
                    one for one in answer["transaction_states"] if one["transactional_id"] != TRANSACTIONAL_ID
                ]
            if case_name == "describe transactions":
                for one in answer["transaction_states"]:
                    one["transaction_start_time_ms"] = "*"
            of_system[case_name] = answer
        answers.append(of_system)
    _assert_same(answers)


CHARS: Final = ("a", "ab", "abc", "b", "*")
HOSTS: Final = (SUBJECT, OTHER)


def _random_rules(chance: random.Random) -> list[Rule]:
    """Rules that meet: few names that are each other's prefixes, few principals and hosts, and every operation."""
    kinds = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID, ResourceType.CLUSTER)
    rules = []
    for _ in range(chance.randint(1, 12)):
        kind = chance.choice(kinds)
        is_cluster = kind is ResourceType.CLUSTER
        rules.append(
            Rule(
                kind,
                CLUSTER_NAME if is_cluster else chance.choice(CHARS),
                chance.choice((*SUPPORTED_OPERATIONS[kind], Operation.ALL)),
                chance.choice((Permission.ALLOW, Permission.ALLOW, Permission.DENY)),
                PatternType.LITERAL
                if is_cluster
                else chance.choice((PatternType.LITERAL, PatternType.PREFIXED)),
                chance.choice((ANONYMOUS, ANONYMOUS, "User:*", "User:bob")),
                chance.choice(HOSTS),
            )
        )
    return rules


def _decisions(system: System, host: str) -> list[Any]:
    """What the client at a host may do, as answers tell."""
    with RawClient(system.bootstrap, timeout_s=30, source=host) as client:
        rights = client.call(acl_requests.metadata_with_rights(*CHARS[:4]), 10)
        groups = DescribeGroupsRequest(groups=list(CHARS[:4]), include_authorized_operations=True)
        ids = [FindCoordinatorRequest(key_type=1, key=name) for name in CHARS[:4]]
        return [
            rights.cluster_authorized_operations,
            {one.name: (one.error_code, one.topic_authorized_operations) for one in rights.topics},
            {
                one.group_id: (one.error_code, one.authorized_operations)
                for one in client.call(groups, 5).groups
            },
            [
                client.call(one, 2).error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
                for one in ids
            ],
            # Whether there is any topic that it may write to.
            client.call(
                InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1_000), 4
            ).error_code,
        ]


@pytest.mark.parametrize(
    "seed", [one if one < 8 else pytest.param(one, marks=pytest.mark.nightly) for one in range(120)]
)
def test_random_rules_decide_as_in_kafka(guarded: list[System], seed: int) -> None:
    rules = _random_rules(random.Random(seed))
    for system in guarded:
        set_rules(system.bootstrap, rules)
    for host in HOSTS:
        found = [_decisions(system, host) for system in guarded]
        for one, other in itertools.pairwise(found):
            assert one == other, (host, rules)


@pytest.mark.nightly
def test_random_rules_decide_as_in_kafka_where_the_rest_is_open(
    kafka_classpath: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """allow.everyone.if.no.acl.found: here the broker's own address has no rules for names."""
    settings = {"allow.everyone.if.no.acl.found": "true"}
    with guarded_systems(
        tmp_path_factory.mktemp("open"), kafka_classpath, settings, opened=[ResourceType.CLUSTER]
    ) as systems:
        for system in systems:
            test_every_api.prepare(system)
        for seed in range(60):
            rules = _random_rules(random.Random(seed))
            for system in systems:
                set_rules(system.bootstrap, rules)
            for host in HOSTS:
                found = [_decisions(system, host) for system in systems]
                for one, other in itertools.pairwise(found):
                    assert one == other, (seed, host, rules)


def _assert_same(answers: list[dict[str, Any]]) -> None:
    found = []
    for case_name in answers[0]:
        for other in answers[1:]:
            found += [f"{case_name}: {one}" for one in differences(answers[0][case_name], other[case_name])]
    assert not found, "\n".join(found[:40])
