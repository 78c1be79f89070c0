"""Transactions on Apache Kafka 4.3, whose clusters have transaction.version 2 (KIP-890, part 2).

Kafka's own producer and pkafka's take the same steps; a proxy keeps what each of them asks for, and both ask the same.
"""

import re
import time
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Final

import pytest

from pkafka.clients.admin.results import FeatureUpdate, FeatureUpdateKind
from pkafka.clients.admin.transaction_results import ProducerIdAndEpoch
from pkafka.clients.consumer import Consumer
from pkafka.clients.producer import Producer, ProducerFencedError
from pkafka.errors import ApiError
from pkafka.model import TopicPartition
from pkafka.protocol.api import ApiKey
from pkafka.server.coordinator.keyed_topic import partition_of
from pkafka.server.transactions.records import encode_key, encode_value
from pkafka.server.transactions.states import TransactionState
from pkafka.server.transactions.transaction import Facts
from tests.interop import kafka as oracle
from tests.interop.committed import committed_values
from tests.interop.kraft import SETTINGS, KraftBroker, running_kraft
from tests.interop.recorder import Recorder, Said
from tests.interop.side_by_side import pk
from tests.interop.transaction_steps import DONE, JavaSteps, OwnSteps, Steps
from tests.talk import Talk, good, talking, wait_for

pytestmark = [pytest.mark.interop, pytest.mark.nightly, pytest.mark.timeout(400)]

LAST_EPOCH: Final = 32_766
_ABOUT_PRODUCING: Final = frozenset(
    {
        ApiKey.PRODUCE,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.END_TXN,
    }
)
Side = tuple[KraftBroker, Recorder]


@pytest.fixture(scope="module")
def class_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Apache Kafka 4.3.1 with the program that takes steps."""
    try:
        jars = oracle.jars("kafka-4")
        return oracle.compile_java(jars, tmp_path_factory.mktemp("steps"), "TransactionSteps")
    except oracle.OracleUnavailableError as missing:
        pytest.skip(str(missing))


def _beside(directory: Path, version: int) -> Iterator[Side]:
    with (
        Recorder() as recorder,
        running_kraft(directory, transaction_version=version, advertised=recorder.port) as broker,
    ):
        recorder.target = broker.port
        yield broker, recorder


@pytest.fixture(scope="module")
def side(class_path: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    """A broker with transaction.version 2, and what was said to it."""
    yield from _beside(tmp_path_factory.mktemp("kafka-4"), 2)


@pytest.fixture
def talk(side: Side) -> Iterator[Talk]:
    with talking(side[1].bootstrap) as client:
        yield client


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    return re.sub(r"\W", "-", request.node.name)[-100:]


@pytest.fixture
def both(class_path: str, side: Side, topic: str) -> Iterator[tuple[Steps, Steps]]:
    """Kafka's producers and pkafka's, on topics of their own."""
    bootstrap = side[1].bootstrap
    with (
        JavaSteps(class_path, bootstrap, f"{topic}-j-") as theirs,
        OwnSteps(bootstrap, f"{topic}-p-") as ours,
    ):
        yield theirs, ours


def asked(recorder: Recorder, client_id: str) -> list[Said]:
    """What a producer asked for in its transactions; what it repeated at once counts once.

    Produce 13 names topics by ids, and is 12 otherwise (KIP-516); pkafka stays with names.
    """
    said = [each for each in recorder.said(client_id) if each.key in _ABOUT_PRODUCING]
    plain = [
        Said(key, min(version, 12)) if key is ApiKey.PRODUCE else Said(key, version) for key, version in said
    ]
    return [each for each, _ in groupby(plain)]


def played(steps: Steps, script: str) -> list[bool]:
    """Take the steps; says of each whether it went well. TOPIC stands for a topic of these producers alone."""
    topic = f"{steps.prefix}topic"
    return [steps.step(line.strip().replace("TOPIC", topic)) == DONE for line in script.strip().splitlines()]


def state(talk: Talk, transactional_id: str) -> tuple[str, int]:
    """The last transaction's state, once it is over, and the epoch of its producer."""

    def is_over() -> tuple[str, int] | None:
        found = good(talk.admin.describe_transactions([transactional_id])[transactional_id])
        if found.state.value in ("Empty", "CompleteCommit", "CompleteAbort"):
            return found.state.value, found.producer_epoch
        return None

    wait_for(is_over, what="the end of the transaction")
    over = is_over()
    assert over is not None
    return over


SCRIPTS: Final = {
    "commits": """
        a init
        a begin
        a send TOPIC 1
        a send TOPIC 2
        a commit
        a begin
        a send TOPIC 3
        a commit
        """,
    "aborts": """
        a init
        a begin
        a send TOPIC 1
        a abort
        a begin
        a send TOPIC 2
        a commit
        """,
    "nothing": """
        a init
        a begin
        a commit
        a begin
        a abort
        a begin
        a send TOPIC 1
        a commit
        """,
    "offsets": """
        a init
        a begin
        a send TOPIC 1
        a offsets TOPIC 5 -
        a commit
        a begin
        a offsets TOPIC 7 -
        a commit
        a begin
        a offsets TOPIC 9 -
        a abort
        """,
    "zombie-member": """
        a init
        a begin
        a send TOPIC 1
        a offsets TOPIC 5 stranger
        a commit
        a abort
        a begin
        a send TOPIC 2
        a offsets TOPIC 6 -
        a commit
        """,
    "failed-batch": """
        a init
        a begin
        a send TOPIC 1
        a send TOPIC 5000
        a send TOPIC 1
        a commit
        a abort
        a begin
        a send TOPIC 2
        a commit
        """,
    "failed-first-batch": """
        a init
        a begin
        a send TOPIC 5000
        a abort
        a begin
        a send TOPIC 2
        a commit
        """,
    "close-in-a-transaction": """
        a init
        a begin
        a send TOPIC 1
        a close
        """,
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_it_asks_for_the_same_as_kafkas_own_producer(
    name: str, side: Side, talk: Talk, both: tuple[Steps, Steps]
) -> None:
    theirs, ours = both
    outcomes, requests, states = [], [], []
    for steps in (theirs, ours):
        talk.create(f"{steps.prefix}topic", **{"max.message.bytes": 2_000})
        outcomes.append(played(steps, SCRIPTS[name]))
        states.append(state(talk, f"{steps.prefix}a"))
        requests.append(asked(side[1], f"{steps.prefix}a"))
    assert outcomes[1] == outcomes[0]
    assert requests[1] == requests[0]
    assert states[1] == states[0], "the state, and the epoch"
    assert not {each.key for each in requests[1]} & {ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN}
    found = [len(committed_values(side[1].bootstrap, f"{each.prefix}topic")) for each in both]
    assert found[1] == found[0]


def test_a_producer_that_was_fenced_says_and_asks_for_the_same(
    side: Side, talk: Talk, both: tuple[Steps, Steps]
) -> None:
    script = """
        a init
        a begin
        a send TOPIC 1
        """
    rest = """
        a send TOPIC 2
        a abort
        a begin
        """
    found = []
    for steps in both:
        talk.create(f"{steps.prefix}topic")
        assert all(played(steps, script))
        fenced = good(talk.admin.fence_producers([f"{steps.prefix}a"])[f"{steps.prefix}a"])
        assert isinstance(fenced, ProducerIdAndEpoch)
        outcomes = played(steps, rest)
        found.append((outcomes, fenced.producer_epoch, asked(side[1], f"{steps.prefix}a")))
        assert committed_values(side[1].bootstrap, f"{steps.prefix}topic") == []
    assert found[1] == found[0]
    assert found[1][0] == [False, False, False]


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_an_end_whose_answer_is_lost_is_asked_for_again(
    end: str, side: Side, talk: Talk, both: tuple[Steps, Steps]
) -> None:
    """The coordinator knows the request again by the epoch before, and gives the same next one."""
    found = []
    for steps in both:
        talk.create(f"{steps.prefix}topic")
        assert all(played(steps, "a init\na begin\na send TOPIC 1"))
        side[1].lose_answer(f"{steps.prefix}a", ApiKey.END_TXN)
        assert all(played(steps, f"a {end}\na begin\na send TOPIC 2\na commit"))
        count = len(committed_values(side[1].bootstrap, f"{steps.prefix}topic"))
        found.append((asked(side[1], f"{steps.prefix}a"), state(talk, f"{steps.prefix}a"), count))
    assert found[1] == found[0]
    assert found[1][2] == (2 if end == "commit" else 1)


@pytest.mark.parametrize("key", [ApiKey.PRODUCE, ApiKey.TXN_OFFSET_COMMIT], ids=lambda key: key.name)
def test_records_and_offsets_whose_answer_is_lost_count_once(
    key: ApiKey, side: Side, talk: Talk, both: tuple[Steps, Steps]
) -> None:
    found = []
    for steps in both:
        topic = f"{steps.prefix}topic"
        talk.create(topic)
        assert all(played(steps, "a init\na begin"))
        side[1].lose_answer(f"{steps.prefix}a", key)
        assert all(played(steps, "a send TOPIC 1\na offsets TOPIC 4 -\na commit"))
        state(talk, f"{steps.prefix}a")
        with Consumer({"bootstrap.servers": side[1].bootstrap, "group.id": f"{steps.prefix}group"}) as member:
            stored = member.committed([TopicPartition(topic, 0)])[TopicPartition(topic, 0)]
        assert stored is not None
        assert stored.offset == 4
        found.append((asked(side[1], f"{steps.prefix}a"), len(committed_values(side[1].bootstrap, topic))))
    assert found[1] == found[0]
    assert found[1][1] == 1


def test_after_the_last_epoch_the_end_of_a_transaction_gives_another_id(
    side: Side, talk: Talk, both: tuple[Steps, Steps]
) -> None:
    """The coordinator finds in its log that the ids are near their last epoch."""
    broker, recorder = side
    ids = {f"{steps.prefix}a": 100_000 + number for number, steps in enumerate(both)}
    good(talk.admin.fence_producers(list(ids))[f"{both[0].prefix}a"])  # makes the topic
    for transactional_id, producer_id in ids.items():
        _write_state(recorder, transactional_id, producer_id, LAST_EPOCH - 2)
    broker.stop()
    broker.start()
    found = []
    for steps in both:
        talk.create(f"{steps.prefix}topic")
        again = "\na begin\na send TOPIC 1\na commit"
        assert all(played(steps, f"a init{again * 4}\na begin\na send TOPIC 1\na abort"))
        transactional_id = f"{steps.prefix}a"
        over = state(talk, transactional_id)
        described = good(talk.admin.describe_transactions([transactional_id])[transactional_id])
        assert described.producer_id != ids[transactional_id]
        found.append((over, asked(recorder, transactional_id)))
        assert len(committed_values(recorder.bootstrap, f"{steps.prefix}topic")) == 4
    assert found[1] == found[0]
    assert found[1][0][1] < 5


def _write_state(recorder: Recorder, transactional_id: str, producer_id: int, epoch: int) -> None:
    """What the coordinator writes for an id without a transaction. It lets only clients of this name do that."""
    now_ms = int(time.time() * 1_000)
    facts = Facts(TransactionState.EMPTY, producer_id, epoch, 60_000, (), -1, now_ms)
    partition = partition_of(transactional_id, int(str(SETTINGS["transaction.state.log.num.partitions"])))
    with Producer({"bootstrap.servers": recorder.bootstrap, "client.id": "__admin_client"}) as writer:
        key, value = encode_key(transactional_id), encode_value(facts)
        writer.send("__transaction_state", value, key, partition=partition).result(30)


# -- a cluster that is upgraded -----------------------------------------------------------------------------------


def test_a_producer_changes_over_when_the_cluster_is_upgraded(class_path: str, tmp_path: Path) -> None:
    """Features are heard of with each connection; a transaction ends in the version in which it began."""
    for side in _beside(tmp_path, 1):
        bootstrap = side[1].bootstrap
        with (
            talking(bootstrap) as talk,
            JavaSteps(class_path, bootstrap, "j-") as theirs,
            OwnSteps(bootstrap, "p-") as ours,
        ):
            _upgraded(side[1], talk, (theirs, ours))


def _upgraded(recorder: Recorder, talk: Talk, both: tuple[Steps, Steps]) -> None:
    for steps in both:
        talk.create(f"{steps.prefix}topic")
        assert all(played(steps, "a init\na begin\na send TOPIC 1\na offsets TOPIC 1 -\na commit"))
        assert all(played(steps, "a begin\na send TOPIC 1"))
    update = FeatureUpdate("transaction.version", 2, FeatureUpdateKind.UPGRADE)
    assert talk.admin.update_features([update])["transaction.version"] is None
    recorder.drop()
    found = []
    for steps in both:
        assert all(
            played(steps, "a send TOPIC 1\na commit\na begin\na send TOPIC 1\na offsets TOPIC 2 -\na abort")
        )
        found.append((asked(recorder, f"{steps.prefix}a"), state(talk, f"{steps.prefix}a")))
        assert len(committed_values(recorder.bootstrap, f"{steps.prefix}topic")) == 3
    assert found[1] == found[0]
    keys = [each.key for each in found[1][0]]
    assert keys.count(ApiKey.INIT_PRODUCER_ID) == 2
    assert keys[-4:] == [ApiKey.INIT_PRODUCER_ID, ApiKey.PRODUCE, ApiKey.TXN_OFFSET_COMMIT, ApiKey.END_TXN]


# -- the tools ----------------------------------------------------------------------------------------------------


def test_fence_producers_fences_one_of_version_2(side: Side, talk: Talk, topic: str) -> None:
    talk.create(topic)
    keys = {"bootstrap.servers": side[1].bootstrap, "transactional.id": topic}
    with Producer(keys) as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send(topic, b"before")
        producer.begin_transaction()
        producer.send(topic, b"never").result(30)
        assert isinstance(talk.admin.fence_producers([topic])[topic], ProducerIdAndEpoch)
        with pytest.raises((ProducerFencedError, ApiError)):
            producer.commit_transaction()
    assert state(talk, topic)[0] in ("CompleteAbort", "Empty")
    assert committed_values(side[1].bootstrap, topic) == [b"before"]


def test_the_perf_tool_runs_transactions_of_version_2(side: Side, talk: Talk, topic: str) -> None:
    talk.create(topic, 3)
    size = ("--num-records", 2_000, "--record-size", 10, "--transaction-records", 50)
    server = ("--bootstrap-server", side[1].bootstrap, "--producer-property", f"transactional.id={topic}")
    pk("perf_test", "run", *server, "--topic", topic, *size)
    producers = [
        each for each in talk.admin.list_transactions().transactions if topic in each.transactional_id
    ]
    assert len(producers) == 1
    assert state(talk, producers[0].transactional_id) == ("CompleteCommit", 40)
    assert len(committed_values(side[1].bootstrap, topic, 3)) == 2_000
