"""How transactions are kept: Apache Kafka and pkafka write the same records, and each goes on where the other stopped.

What they answer to requests is test_transactions.py's subject.
"""

import json
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from pkafka.coordination.zookeeper import ZooKeeperStore
from pkafka.errors import ErrorCode
from pkafka.model import LATEST, TRANSACTION_STATE_TOPIC, TopicPartition
from pkafka.protocol.codec import encode
from pkafka.protocol.messages.records.transaction_log import PartitionsSchema, TransactionLogValue
from pkafka.records.builder import build_batch
from pkafka.server.coordinator.keyed_topic import partition_of
from pkafka.server.transactions.records import encode_key, encode_value
from pkafka.server.transactions.states import TransactionState
from pkafka.server.transactions.transaction import Facts
from tests.differences import first_difference
from tests.interop.conftest import JavaTool
from tests.interop.one_of_each import (
    STATE_PARTITIONS,
    TOPIC,
    Either,
    OneOfEach,
    one_of_each,
    prepare,
    release,
    wait_for_end_of_session,
)
from tests.interop.test_transactions import Script, all_requests
from tests.raw_client import RawClient, produce_request
from tests.talk import good, talking, wait_for
from tests.transaction_client import (
    END_VERSIONS,
    INIT_VERSIONS,
    LIST_VERSIONS,
    Identity,
    TransactionClient,
)
from tests.zookeeper import ZooKeeper

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

DUMP: Final = "kafka.tools.DumpLogSegments"
STUCK: Final = "stuck"
"""A topic in which no marker can be written, as it wants more replicas in sync than it has."""
LAST_EPOCH: Final = 32_767
Seeds = dict[str, tuple[Facts, int]]
"""By transactional id: what the log has of it, and the version of its record."""


@pytest.fixture(scope="module")
def both(
    kafka_classpath: str, zookeeper: ZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OneOfEach]:
    """A broker of either kind, started again after all seeds of this module were written into its log."""
    made = one_of_each(
        kafka_classpath, zookeeper.connect, tmp_path_factory.mktemp("transaction-logs"), shared=False
    )
    try:
        made.start([STUCK])
        for broker in made.brokers:
            for seeds in (*SCRIPTS.values(), REPEATED):
                sow(broker.bootstrap, seeds)
        made.restart()
        yield made
    finally:
        made.kill()


def sow(bootstrap: str, seeds: Seeds) -> None:
    """Write records into __transaction_state, which the coordinator reads at its next start."""
    now_ms = time.time_ns() // 1_000_000
    batches = defaultdict(list)
    for name, (facts, version) in seeds.items():
        value = encode_value(facts) if version == 0 else _flexible(facts)
        batches[partition_of(name, STATE_PARTITIONS)].append((now_ms, encode_key(name), value, ()))
    sets = {(TRANSACTION_STATE_TOPIC, key): bytes(build_batch(rows)) for key, rows in batches.items()}
    with RawClient(bootstrap) as client:
        client.send(produce_request(sets), 9, client_id="__admin_client")
        for one in client.receive().responses[0].partition_responses:
            assert one.error_code == 0


def _flexible(facts: Facts) -> bytes:
    """The value in version 1, which pkafka reads and does not write."""
    value = TransactionLogValue(
        producer_id=facts.producer_id,
        producer_epoch=facts.producer_epoch,
        transaction_timeout_ms=facts.timeout_ms,
        transaction_status=facts.state,
        transaction_partitions=[
            PartitionsSchema(topic=topic, partition_ids=[index]) for topic, index in facts.partitions
        ],
        transaction_last_update_timestamp_ms=facts.update_ms,
        transaction_start_timestamp_ms=facts.start_ms,
    )
    return b"\0\1" + encode(value, 1)


NOW_MS: Final = 4_000_000_000_000
"""In a hundred years: what began then has not timed out."""
_serial = iter(range(5_000_000, 6_000_000))


def facts(state: TransactionState, epoch: int, *, topic: str = TOPIC) -> Facts:
    """What a record may say of a producer that no broker has seen."""
    is_begun = state is not TransactionState.EMPTY
    has_partitions = is_begun and not state.is_idle
    return Facts(
        state,
        next(_serial),
        epoch,
        60_000,
        ((topic, 0),) if has_partitions else (),
        NOW_MS if is_begun else -1,
        NOW_MS,
    )


# -- after a restart ----------------------------------------------------------------------------------------------

_EPOCHS: Final = (LAST_EPOCH - 3, LAST_EPOCH - 2, LAST_EPOCH - 1, LAST_EPOCH)
_RESTING: Final = (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
"""States without a transaction."""
EXHAUSTED: Final[Seeds] = {
    f"{how}-{state.text}-{epoch}": (facts(state, epoch), 0)
    for how in ("new", "same")
    for state in (*_RESTING, TransactionState.ONGOING)
    for epoch in _EPOCHS
    if (state, epoch) != (TransactionState.ONGOING, LAST_EPOCH)
}


def epochs_run_out(script: Script) -> None:
    """From the last epoch but one a producer gets another id; only a fence may have the last one."""
    for name, (seed, _version) in EXHAUSTED.items():
        own = Identity(*seed.producer) if name.startswith("same") else None
        script.note(name)
        script.describe(name)
        first = script.init(name, own)
        if seed.state is TransactionState.ONGOING:
            script.wait_for_state(name, "CompleteAbort")
            script.describe(name)
            first = script.init(name)
        elif own is not None and own.epoch != LAST_EPOCH - 2:
            for _again in range(2):
                script.init(name, own)  # it may not have heard the answer
            script.init(name, own._replace(epoch=own.epoch - 1))
        script.describe(name)
        script.add(name, first, [(TOPIC, (1,))])
        script.end(name, first)
        script.wait_for_state(name, "CompleteCommit")
        script.init(name, first)
        script.describe(name)


REPEATED: Final[Seeds] = {"repeated": (facts(TransactionState.EMPTY, LAST_EPOCH - 2), 0)}


STATES: Final[Seeds] = {
    f"state-{version}-{state.text}{number}": (facts(state, 5 + number), version)
    for version in (0, 1)
    for state in list(TransactionState)[:6]
    for number in range(3)
} | {
    f"stuck-{state.text}": (facts(state, 3, topic=STUCK), 0)
    for state in (TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
}


def states_are_loaded(script: Script) -> None:
    """Every state is found again: the decided are completed, the open go on."""
    for name, (seed, _version) in STATES.items():
        script.note(name)
        own = Identity(*seed.producer)
        if seed.state.is_decided and not name.startswith("stuck"):
            script.wait_for_state(name, seed.state.completed.text)
        script.describe(name)
        script.init(name, own._replace(epoch=own.epoch - 1))
        script.end(name, own._replace(epoch=own.epoch - 1))
        if name.endswith("0"):
            script.end(name, own)
        elif name.endswith("1"):
            script.end(name, own, commit=False)
        else:
            script.add(name, own, [(TOPIC, (1,))])
        if not name.startswith("stuck"):
            wait_for(lambda: not script.state(name).startswith("Prepare"), what="the end")  # noqa: B023
        script.describe(name)


_DAY_MS: Final = 24 * 3_600_000
AGES: Final[Seeds] = {
    f"{name}-{state.text}": (
        facts(state, 7)._replace(
            update_ms=time.time_ns() // 1_000_000 - age_ms,
            start_ms=-1 if state is TransactionState.EMPTY else time.time_ns() // 1_000_000 - age_ms,
        ),
        0,
    )
    for state in list(TransactionState)[:6]
    for name, age_ms in (("old", 8 * _DAY_MS), ("young", 6 * _DAY_MS))
}


def ids_expire(script: Script) -> None:
    """What was not used for a week is forgotten; what is open has timed out long ago, and begins a week with that."""
    for name, (seed, _version) in AGES.items():
        script.note(name)
        own = Identity(*seed.producer)
        if name.startswith("old") and seed.state.is_idle:
            wait_for(lambda: not script.state(name), what=f"the end of {name}")  # noqa: B023 - called at once
            script.describe(name)
            for version in END_VERSIONS:
                script.end(name, own, version=version)
            script.note(_has_tombstone(script.bootstrap, name))
            script.init(name, own)
        elif not seed.state.is_idle:
            is_commit = seed.state is TransactionState.PREPARE_COMMIT
            script.wait_for_state(name, "CompleteCommit" if is_commit else "CompleteAbort")
            for version in END_VERSIONS:
                script.end(name, own, version=version)
        script.describe(name)


def _has_tombstone(bootstrap: str, name: str) -> bool:
    """Whether the last record of an id says that there is none."""
    with talking(bootstrap) as talk:
        records = talk.read(TRANSACTION_STATE_TOPIC, partition_of(name, STATE_PARTITIONS))
    return [one.value for one in records if one.key == encode_key(name)][-1] is None


SCRIPTS: Final[Mapping[Callable[[Script], None], Seeds]] = {
    ids_expire: AGES,
    epochs_run_out: EXHAUSTED,
    states_are_loaded: STATES,
}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_what_was_loaded_counts(both: OneOfEach, script: Callable[[Script], None]) -> None:
    def play(bootstrap: str) -> list[Any]:
        with Script(bootstrap) as player:
            script(player)
            return player.answers

    assert both.answers(play)


def test_a_producer_asks_again_for_its_last_epoch(both: OneOfEach) -> None:
    """Kafka tries to give it another epoch, which there is not; pkafka gives it the one that it did not hear of."""
    own = Identity(*REPEATED["repeated"][0].producer)
    outcomes = []
    for broker in both.brokers:
        with TransactionClient(broker.bootstrap) as client:
            assert client.init("repeated", own).epoch == LAST_EPOCH - 1
            stranger = client.init("repeated", own._replace(epoch=own.epoch - 1))
            assert stranger == Identity()
            outcomes.append(client.init("repeated", own))
    assert outcomes == [Identity(), own._replace(epoch=LAST_EPOCH - 1)]


# -- records --------------------------------------------------------------------------------------------------------


@pytest.mark.nightly  # two brokers of its own; in each change either reads what the other has left
def test_the_records_are_kafkas(
    kafka_classpath: str, zookeeper: ZooKeeper, tmp_path: Path, java_tool: JavaTool
) -> None:
    """The same requests leave the same records, batch by batch, and the same markers."""
    made = one_of_each(kafka_classpath, zookeeper.connect, tmp_path, shared=False)

    def play(bootstrap: str) -> list[Any]:
        with Script(bootstrap) as script:
            _every_record(script)
            return script.answers

    try:
        made.start_bare()
        assert made.answers(_first_answers)
        made.prepare()
        settings = [_settings_of_the_state_topic(connect) for connect in made.connects]
        assert settings[0] == settings[1]
        assert made.answers(play)
        for topic, words in (
            (TRANSACTION_STATE_TOPIC, ("--transaction-log-decoder",)),
            (TOPIC, ("--print-data-log",)),
        ):
            theirs, ours = (_unnamed(_dump(java_tool, broker, topic, *words)) for broker in made.brokers)
            assert not first_difference(ours, theirs)
            assert ("state=CompleteAbort" if words[0].startswith("--t") else "endTxnMarker: COMMIT") in theirs
    finally:
        made.kill()


def _first_answers(bootstrap: str) -> list[Any]:
    """Nothing coordinates transactions yet: there is no topic for them."""
    with Script(bootstrap) as script:
        for name in ("t", ""):
            for version in INIT_VERSIONS:
                script.init(name, version=version)
                script.init(name, timeout_ms=0, version=version)
            all_requests(script, name, Identity(5, 0))
        script.describe("t", "u", "")
        for version in LIST_VERSIONS:
            script.list(version=version)
            script.list(states=["Ongoing", "Gone"], version=version)
        return script.answers


def _settings_of_the_state_topic(connect: str) -> tuple[object, int]:
    """The configuration of __transaction_state as it was made, and how many partitions it has."""
    with ZooKeeperStore(connect) as store:
        made = json.loads(store.get(f"/config/topics/{TRANSACTION_STATE_TOPIC}")[0])["config"]
        return made, len(json.loads(store.get(f"/brokers/topics/{TRANSACTION_STATE_TOPIC}")[0])["partitions"])


def _every_record(script: Script) -> None:
    """All kinds of records of __transaction_state, of ids in each partition of it, one after the other."""
    for number in range(2 * STATE_PARTITIONS):
        name = f"recorded-{number}"
        producer = script.init(name, timeout_ms=1_000_000 - 100_001 - number)
        script.end(name, producer)
        for commit in (True, False):
            # One partition: Kafka's order of several is that of a hash table.
            script.add(name, producer, [(TOPIC, (number % 3,))])
            script.add(name, producer, [(TOPIC, (number % 3,))])
            script.complete(name, producer, commit=commit)
        producer = script.init(name, producer)
        script.add(name, producer, [])
        script.complete(name, producer, commit=number % 2 == 0)
        script.add(name, producer, [(TOPIC, (number % 3,))])
        script.init(name)
        script.wait_for_state(name, "CompleteAbort")
        script.init(name)


def _dump(java_tool: JavaTool, broker: Either, topic: str, *words: str) -> str:
    files = ",".join(map(str, sorted(broker.log_dir.glob(f"{topic}-*/*.log"))))
    done = java_tool(DUMP, *words, "--files", files)
    assert done.returncode == 0, done
    return str(done.stdout)


def _unnamed(dump: str) -> str:
    """A dump without what differs from run to run: times, producer ids, checksums, paths."""
    dump = re.sub(r"\b1[6-9]\d{11}\b", "T", dump)
    dump = re.sub(r"(producerId[:=] ?)(\d+)", r"\1P", dump)
    dump = re.sub(r"crc: \d+", "crc: C", dump)
    # Kafka gives its own records the sequence 0, which without a producer means nothing.
    dump = re.sub(r"equence: (-1|0)\b", "equence: S", dump)
    return re.sub(r"(Dumping )?/\S+/(?=[a-z_]*transaction)", "", dump)


# -- one takes over from the other ----------------------------------------------------------------------------------

LASTING_MS: Final = 600_000
"""No transaction is to time out while a JVM starts on a busy machine."""
_LEFT: Final = ("Empty", "Ongoing", "CompleteCommit", "CompleteAbort", "PrepareCommit", "PrepareAbort")


@pytest.mark.parametrize(
    ("first", "how"),
    [
        ("pkafka", "kill"),
        pytest.param("pkafka", "stop", marks=pytest.mark.nightly),
        *(pytest.param("kafka", how, marks=pytest.mark.nightly) for how in ("stop", "kill")),
    ],
)
def test_transactions_move_between_kafka_and_pkafka(
    kafka_classpath: str, zookeeper: ZooKeeper, tmp_path: Path, how: str, first: str
) -> None:
    """In all six states: the second broker knows them, ends what is decided, and producers go on with it."""
    made = one_of_each(kafka_classpath, zookeeper.connect, tmp_path, shared=True)
    one, other = made.brokers if first == "kafka" else made.brokers[::-1]
    try:
        one.start()
        prepare(one.bootstrap, made.connects[0], [STUCK])
        with TransactionClient(one.bootstrap) as client:
            producers = {state: _left(client, state) for state in _LEFT}
        getattr(one, how)()
        wait_for_end_of_session(made.connects[0])
        other.start()
        with TransactionClient(other.bootstrap) as client:
            client.coordinate(STATE_PARTITIONS)
            _check_left(client, producers, is_kafka=first == "pkafka")
            with talking(other.bootstrap) as talk:
                stuck = TopicPartition(STUCK, 0)
                assert good(talk.admin.list_offsets({stuck: LATEST})[stuck]).offset == 0, "there is a marker"
            release(other.bootstrap, STUCK)
            _go_on(client, producers)
    finally:
        made.kill()


def _left(client: TransactionClient, state: str) -> Identity:
    """Leave a transactional id in a state."""
    producer = client.init(state, timeout_ms=LASTING_MS)
    if state != "Empty":
        topic = STUCK if state.startswith("Prepare") else TOPIC
        good_codes(client.add(state, producer, [(topic, (0,))]))
    if state.startswith(("Prepare", "Complete")):
        assert client.end(state, producer, commit=state.endswith("Commit")).error_code == 0
    client.wait_for_state(state, state)
    return producer


def good_codes(answer: Any) -> None:
    """Insist on an answer to AddPartitionsToTxn without any error."""
    for topic in answer.results_by_topic_v3_and_below:
        for one in topic.results_by_partition:
            assert one.partition_error_code == 0, ErrorCode(one.partition_error_code)


def _check_left(client: TransactionClient, producers: Mapping[str, Identity], *, is_kafka: bool) -> None:
    """Every id is as the broker before left it.

    Args:
        client: of the broker that took over.
        producers: by the states in which their ids were left.
        is_kafka: it is Apache Kafka, which may have loaded a decided transaction before it knew of the partition's
            leader. Then it takes the partition for a deleted one, and completes the transaction without a marker.
    """
    for found in client.describe(*producers).transaction_states:
        name = found.transactional_id
        ended = name.replace("Prepare", "Complete") if is_kafka else name
        assert found.error_code == 0
        assert found.transaction_state in {name, ended}
        assert (found.producer_id, found.producer_epoch) == producers[name]
        assert found.transaction_timeout_ms == LASTING_MS
        is_open = found.transaction_state == "Ongoing" or found.transaction_state.startswith("Prepare")
        topics = [(one.topic, list(one.partitions)) for one in found.topics]
        assert topics == ([(TOPIC if name == "Ongoing" else STUCK, [0])] if is_open else [])


def _go_on(client: TransactionClient, producers: Mapping[str, Identity]) -> None:
    """The decided transactions end as they were decided, and every producer commits one more."""
    client.wait_for_state("PrepareCommit", "CompleteCommit")
    client.wait_for_state("PrepareAbort", "CompleteAbort")
    assert client.end("PrepareCommit", producers["PrepareCommit"]).error_code == 0
    assert client.end("PrepareAbort", producers["PrepareAbort"], commit=False).error_code == 0
    for name, producer in producers.items():
        good_codes(client.add(name, producer, [(TOPIC, (1,))]))
        assert client.end(name, producer).error_code == 0
        client.wait_for_state(name, "CompleteCommit")
        assert client.init(name) == producer._replace(epoch=producer.epoch + 1)
