"""Requests about transactions, legal and not, at every version: Apache Kafka and pkafka answer the same.

Each script is played on both, and every answer is compared. How transactions look on disk, and what becomes of them
when brokers of the two kinds take over from each other, is test_transaction_logs.py's subject.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, Final

import pytest

from pkafka.protocol.messages.list_transactions import ListTransactionsRequest
from pkafka.protocol.messages.produce import ProduceRequest, ProduceResponse
from pkafka.protocol.schema import Message
from tests.interop.one_of_each import (
    OTHER,
    TOPIC,
    OneOfEach,
    one_of_each,
    stuck_until_the_end,
)
from tests.names import new_name
from tests.raw_client import ClosedByBroker, RawClient, batch, produce_request
from tests.talk import wait_for
from tests.transaction_client import (
    ADD_VERSIONS,
    BATCHED_VERSIONS,
    END_VERSIONS,
    INIT_VERSIONS,
    LIST_VERSIONS,
    OFFSETS_VERSIONS,
    Identity,
    Places,
    TransactionClient,
    part,
)
from tests.zookeeper import ZooKeeper

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

MISSING: Final = "transactions-missing"
PRODUCE_VERSIONS: Final = (3, 7, 9, 10, 11)
MAX_TIMEOUT_MS: Final = 900_000
UNKNOWN_PRODUCER: Final = Identity(987_654_321, 0)


class Script(TransactionClient):
    """One connection to one system, and all that was answered on it."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self.answers: list[Any] = []
        self._ids: dict[int, str] = {UNKNOWN_PRODUCER.producer_id: "nobody", -1: "none"}

    def ask(self, message: Message, version: int) -> Any:
        """Ask, and remember what was answered, producer ids by the order in which they came."""
        try:
            answer = self.client.call(message, version)
        except ClosedByBroker:
            self.answers.append({f"{type(message).__name__} {version}": "closed"})
            self.client.close()
            self.client = RawClient(self.bootstrap)
            return None
        self.answers.append({f"{type(answer).__name__} {version}": self._comparable(answer)})
        return answer

    def note(self, fact: object) -> None:
        """Remember something that is no answer."""
        self.answers.append(fact)

    def _comparable(self, value: Any) -> Any:
        if isinstance(value, Message):
            return {one.name: self._field(value, one.name) for one in value.__fields__}
        if isinstance(value, list):
            return sorted((self._comparable(item) for item in value), key=repr)
        return value

    def _field(self, message: Message, name: str) -> Any:
        value = getattr(message, name)
        if name == "producer_id":
            return self._ids.setdefault(value, f"id {len(self._ids) - 2}")
        if name == "transaction_start_time_ms":
            # Kafka shows when the last transaction began to whoever asks about an id without one, until it restarts.
            is_stale = getattr(message, "transaction_state", "") == "Empty"
            return "none" if is_stale or value == -1 else "a time"
        return self._comparable(value)

    def begin(self, transactional_id: str, *partitions: int, topic: str = TOPIC) -> Identity:
        """Make an open transaction."""
        producer = self.init(transactional_id)
        self.add(transactional_id, producer, [(topic, partitions or (0,))])
        return producer

    def complete(self, transactional_id: str, producer: Identity, *, commit: bool) -> None:
        """End an open transaction, and wait until all its markers are written."""
        self.end(transactional_id, producer, commit=commit)
        self.wait_for_state(transactional_id, "CompleteCommit" if commit else "CompleteAbort")


@pytest.fixture(scope="module")
def both(
    kafka_classpath: str, zookeeper: ZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OneOfEach]:
    """A broker of either kind, whose transactions no other test sees."""
    brokers = one_of_each(
        kafka_classpath, zookeeper.connect, tmp_path_factory.mktemp("transactions"), shared=False
    )

    try:
        brokers.start([_stuck_of(script) for script in STUCK_SCRIPTS])
        yield brokers
    finally:
        brokers.kill()


def _stuck_of(script: Callable[[Script, str], None]) -> str:
    return f"stuck-{script.__name__}"


# -- InitProducerId ----------------------------------------------------------------------------------------------


def bad_inits(script: Script, name: str) -> None:
    """What no producer gets an identity for."""
    timeouts = (1, 0, -1, -(2**31), MAX_TIMEOUT_MS, MAX_TIMEOUT_MS + 1, 2**31 - 1)
    for version in INIT_VERSIONS:
        for timeout_ms in timeouts:
            script.init(f"{name}-{version}", timeout_ms=timeout_ms, version=version)
            script.init(None, timeout_ms=timeout_ms, version=version)
            script.init("", timeout_ms=timeout_ms, version=version)
    halves = (
        Identity(5, -1),
        Identity(-1, 0),
        Identity(-1, 5),
        Identity(0, -1),
        Identity(-2, -1),
        UNKNOWN_PRODUCER,
    )
    for version in INIT_VERSIONS[3:]:
        for transactional_id in (f"{name}-halves-{version}", "", None):
            for expected in (*halves, Identity(-2, -2), Identity(5, -2)):
                script.init(transactional_id, expected, version=version)
                script.init(transactional_id, expected, version=version, timeout_ms=0)
    script.describe(*(f"{name}-halves-{version}" for version in INIT_VERSIONS[3:]))


def epochs_grow(script: Script, name: str) -> None:
    """Each life of a producer has the next epoch, whatever the version."""
    for version in chain(INIT_VERSIONS, INIT_VERSIONS):
        script.init(name, version=version, timeout_ms=1_000 + version)
        script.describe(name)


def bumps(script: Script, name: str) -> None:
    """KIP-360: a producer goes on with its own identity."""
    for version in INIT_VERSIONS[3:]:
        tid = f"{name}-{version}"
        first = script.init(tid, version=version)
        second = script.init(tid, first, version=version)
        script.init(tid, first, version=version)
        script.init(tid, first, version=version, timeout_ms=5_000)
        script.describe(tid)
        third = script.init(tid, second, version=version)
        for expected in (
            first,
            third._replace(epoch=3),
            third._replace(producer_id=third.producer_id + 100_000),
            second._replace(producer_id=third.producer_id + 100_000),
            UNKNOWN_PRODUCER,
            second,
            third,
            third,
        ):
            script.init(tid, expected, version=version)
        script.describe(tid)
        plain = script.init(tid, version=version)
        # What was bumped without the former identity is nobody's retry.
        script.init(tid, third, version=version)
        script.init(tid, plain._replace(epoch=plain.epoch - 1), version=version)
        script.init(tid, plain, version=version)
        script.describe(tid)


def bumps_of_unused_ids(script: Script, name: str) -> None:
    """The coordinator does not know the id (any more), the producer has an identity."""
    for version in INIT_VERSIONS[3:]:
        for number, expected in enumerate(
            (UNKNOWN_PRODUCER, Identity(3, 32_766), Identity(3, 32_767), Identity(-7, -3))
        ):
            script.init(f"{name}-{version}-{number}", expected, version=version)
            script.init(f"{name}-{version}-{number}", expected, version=version)
            script.describe(f"{name}-{version}-{number}")


def inits_over_open_transactions(script: Script, name: str) -> None:
    """The successor has the open transaction aborted, and asks until it is."""
    for version in INIT_VERSIONS:
        tid = f"{name}-{version}"
        old = script.begin(tid, 0, 1)
        script.init(tid, version=version)
        script.wait_for_state(tid, "CompleteAbort")
        script.describe(tid)
        for one in END_VERSIONS:
            script.end(tid, old, version=one)
            script.end(tid, old, commit=False, version=one)
        for one in ADD_VERSIONS:
            script.add(tid, old, [(TOPIC, (0,))], version=one)
        script.init(tid, version=version)
        script.describe(tid)
        if version >= 3:
            script.init(tid, old, version=version)


def bumps_over_open_transactions(script: Script, name: str) -> None:
    """A producer that bumps its epoch in its own transaction fences itself."""
    for version in INIT_VERSIONS[3:]:
        tid = f"{name}-{version}"
        own = script.begin(tid)
        script.init(tid, UNKNOWN_PRODUCER, version=version)
        script.init(tid, own._replace(epoch=7), version=version)
        script.wait_for_state(tid, "CompleteAbort")
        script.init(tid, own, version=version)
        script.init(tid, own._replace(epoch=own.epoch + 1), version=version)
        script.describe(tid)
        tid = f"{name}-{version}-own"
        own = script.begin(tid)
        script.init(tid, own, version=version)
        script.wait_for_state(tid, "CompleteAbort")
        script.init(tid, own, version=version)
        script.init(tid, own, version=version)
        script.describe(tid)


# -- the course of a transaction ------------------------------------------------------------------------------------


def transactions_of_every_version(script: Script, name: str) -> None:
    """Begin, widen, end, end again; a step's version is the number of the round where it has so many."""
    producer = script.init(name)
    for version in END_VERSIONS:
        for commit in (True, False):
            add_version = min(version, ADD_VERSIONS[-1])
            script.add(name, producer, [(TOPIC, (0, 2))], version=add_version)
            script.describe(name)
            script.add(name, producer, [(TOPIC, (0, 2))], version=add_version)
            script.add(name, producer, [(TOPIC, (1, 2)), (OTHER, (0,))], version=add_version)
            script.add_offsets(name, producer, f"g{version}", version=version)
            script.add_offsets(name, producer, f"g{version}", version=version)
            script.describe(name)
            script.end(name, producer, commit=commit, version=version)
            script.wait_for_state(name, "CompleteCommit" if commit else "CompleteAbort")
            script.describe(name)
            for one in (commit, commit, not commit):
                script.end(name, producer, commit=one, version=version)


def ends_of_nothing(script: Script, name: str) -> None:
    """There is nothing to end: the id is new, or its last transaction ended so or otherwise."""
    for version in END_VERSIONS:
        tid = f"{name}-{version}"
        producer = script.init(tid)
        for ended in (None, True, False):
            if ended is not None:
                script.add(tid, producer, [(TOPIC, (0,))])
                script.complete(tid, producer, commit=ended)
            for commit in (True, False):
                script.end(tid, producer, commit=commit, version=version)
        after = script.init(tid, producer)
        for commit in (True, False):
            script.end(tid, after, commit=commit, version=version)
            script.end(tid, producer, commit=commit, version=version)


def strangers(script: Script, name: str) -> None:
    """Ids that are not known, and producers that do not have the id, in every state that lasts."""
    known = script.init(name)
    for transactional_id in ("", f"{name}-unknown"):
        all_requests(script, transactional_id, UNKNOWN_PRODUCER)
        all_requests(script, transactional_id, Identity())

    def as_strangers() -> None:
        for change in (
            {"producer_id": UNKNOWN_PRODUCER.producer_id},
            {"producer_id": -1},
            {"epoch": known.epoch - 1},
            {"epoch": known.epoch + 1},
            {"epoch": -1},
            {"epoch": 32_767},
            {"producer_id": UNKNOWN_PRODUCER.producer_id, "epoch": known.epoch + 1},
        ):
            all_requests(script, name, known._replace(**change))
        script.describe(name)

    as_strangers()
    for commit in (True, False):
        known = script.init(name)
        script.add(name, known, [(TOPIC, (0,))])
        as_strangers()
        script.complete(name, known, commit=commit)
        as_strangers()


def all_requests(script: TransactionClient, transactional_id: str, producer: Identity) -> None:
    """All requests that change a transaction, or ask about it, at all versions."""
    for version in ADD_VERSIONS:
        script.add(transactional_id, producer, [(TOPIC, (0, 1)), (OTHER, (0,))], version=version)
    for version in BATCHED_VERSIONS:
        for verify in (True, False):
            asked = part(transactional_id, producer, [(TOPIC, (0, 1)), (OTHER, (0,))], verify=verify)
            script.batched(asked, version=version)
    for version in OFFSETS_VERSIONS:
        script.add_offsets(transactional_id, producer, version=version)
    for version in END_VERSIONS:
        for commit in (True, False):
            script.end(transactional_id, producer, commit=commit, version=version)


def while_markers_are_owed(script: Script, name: str) -> None:
    """The end is decided, but a partition cannot have its marker yet."""
    with stuck_until_the_end(script.bootstrap, _stuck_of(while_markers_are_owed)) as topic:
        for commit in (True, False):
            tid = f"{name}-{commit}"
            producer = script.begin(tid, topic=topic)
            for version in END_VERSIONS:
                script.end(tid, producer, commit=commit, version=version)
            script.describe(tid)
            for one in (producer, producer._replace(epoch=9), UNKNOWN_PRODUCER):
                all_requests(script, tid, one)
                for version in INIT_VERSIONS[3:]:
                    script.init(tid, one, version=version)
            for version in INIT_VERSIONS:
                script.init(tid, version=version)
            script.describe(tid)
    for commit in (True, False):
        script.wait_for_state(f"{name}-{commit}", "CompleteCommit" if commit else "CompleteAbort")
        script.describe(f"{name}-{commit}")


def produce_while_markers_are_owed(script: Script, name: str) -> None:
    """Records for a partition that has its marker already, while another one of the transaction lacks it."""
    told: list[object] = []
    with stuck_until_the_end(script.bootstrap, _stuck_of(produce_while_markers_are_owed)) as topic:
        producer = script.begin(name, topic=topic)
        script.add(name, producer, [(TOPIC, (0,))])
        script.end(name, producer)
        for version in PRODUCE_VERSIONS:
            request = _one_record(name, producer)

            def is_asked(version: int = version, request: ProduceRequest = request) -> bool:
                answer = script.client.call(request, version)
                told[:] = [_without_offsets(answer)]
                # A broker of Kafka's says first that it has no connection to the coordinator yet.
                return "NETWORK_EXCEPTION" not in repr(told)

            wait_for(is_asked, what="the answer of a coordinator")
            script.note((version, *told))
    script.wait_for_state(name, "CompleteCommit")


def _one_record(transactional_id: str, producer: Identity) -> ProduceRequest:
    data = batch(
        b"v",
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=0,
        transactional=True,
    )
    request = produce_request({(TOPIC, 0): data})
    request.transactional_id = transactional_id
    return request


def _without_offsets(answer: ProduceResponse) -> list[tuple[object, ...]]:
    """The codes and texts of an answer: where the log begins and ends depends on the other tests."""
    return [
        (
            one.index,
            one.error_code,
            one.base_offset,
            one.log_append_time_ms,
            [(each.batch_index, each.batch_index_error_message) for each in one.record_errors],
            one.error_message,
        )
        for topic in answer.responses
        for one in topic.partition_responses
    ]


def while_a_fence_is_owed(script: Script, name: str) -> None:
    """A successor decided the end, and a partition cannot have its marker yet."""
    with stuck_until_the_end(script.bootstrap, _stuck_of(while_a_fence_is_owed)) as topic:
        old = script.begin(name, topic=topic)
        for version in INIT_VERSIONS:
            script.init(name, version=version)
        script.describe(name)
        for epoch in range(3):
            all_requests(script, name, old._replace(epoch=epoch))
            for version in INIT_VERSIONS[3:]:
                script.init(name, old._replace(epoch=epoch), version=version)
        script.describe(name)
    script.wait_for_state(name, "CompleteAbort")
    script.describe(name)


def transactions_time_out(script: Script, name: str) -> None:
    """The coordinator aborts what lasts too long; its producer hears that it was fenced."""
    for version in INIT_VERSIONS:
        tid = f"{name}-{version}"
        producer = script.init(tid, timeout_ms=1, version=version)
        script.add(tid, producer, [(TOPIC, (0, 1))])
        script.wait_for_state(tid, "CompleteAbort")
        script.describe(tid)
        all_requests(script, tid, producer)
        if version >= 3:
            script.init(tid, producer, version=version)
            # The epoch of the fence is nobody's, and yet it may be bumped.
            script.init(tid, producer._replace(epoch=producer.epoch + 1), version=version)
        script.init(tid, version=version)
        script.describe(tid)


def time_out_while_markers_are_owed(script: Script, name: str) -> None:
    """A decided transaction does not time out."""
    with stuck_until_the_end(script.bootstrap, _stuck_of(time_out_while_markers_are_owed)) as topic:
        decided = script.init(f"{name}-decided", timeout_ms=6_000)
        script.add(f"{name}-decided", decided, [(topic, (0,))])
        script.end(f"{name}-decided", decided)
        late = script.init(f"{name}-late", timeout_ms=1)
        script.add(f"{name}-late", late, [(topic, (0,))])
        script.wait_for_state(f"{name}-late", "PrepareAbort")
        for tid, producer in ((f"{name}-decided", decided), (f"{name}-late", late)):
            script.describe(tid)
            all_requests(script, tid, producer)
            script.init(tid)
            script.init(tid, producer)
        started = time.monotonic()
        wait_for(lambda: time.monotonic() > started + 6.5, what="more time than the transaction has")
        script.describe(f"{name}-decided", f"{name}-late")
    script.wait_for_state(f"{name}-decided", "CompleteCommit")
    script.wait_for_state(f"{name}-late", "CompleteAbort")
    script.describe(f"{name}-decided", f"{name}-late")


# -- partitions and groups ------------------------------------------------------------------------------------------

_ODD_PLACES: Final[tuple[Places, ...]] = (
    [],
    [(TOPIC, ())],
    [(TOPIC, (0, 0, 0))],
    [(TOPIC, (0,)), (TOPIC, (0, 1))],
    [(TOPIC, (2,)), (TOPIC, ())],
    [(TOPIC, (0, 3))],
    [(TOPIC, (-1,)), (OTHER, (0,))],
    [(MISSING, (0,))],
    [(MISSING, (0,)), (TOPIC, (0, 1))],
    [(MISSING, ())],
    [("", (0,))],
    [("a/b", (0,)), (TOPIC, (0,))],
    [("__consumer_offsets", (0,))],
    [("__transaction_state", (0,)), (TOPIC, (0,)), (MISSING, (0,))],
    [("__consumer_offsets", (99,)), ("__transaction_state", (99,)), (TOPIC, (99,))],
)


def odd_partitions(script: Script, name: str) -> None:
    """Partitions that are unknown, internal, named twice, or none."""
    script.add_offsets("", UNKNOWN_PRODUCER)
    for version in ADD_VERSIONS:
        tid = f"{name}-{version}"
        producer = script.init(tid)
        for places in _ODD_PLACES:
            script.add(tid, producer, places, version=version)
            script.describe(tid)
        for places in _ODD_PLACES:
            script.add(tid, producer._replace(epoch=7), places, version=version)
            script.add("", producer, places, version=version)
        script.complete(tid, producer, commit=True)
        script.describe(tid)


def transactions_without_partitions(script: Script, name: str) -> None:
    """A transaction that was begun with no partition has no markers to wait for."""
    for version in ADD_VERSIONS:
        for commit in (True, False):
            tid = f"{name}-{version}-{commit}"
            producer = script.init(tid)
            script.add(tid, producer, [], version=version)
            script.describe(tid)
            script.end(tid, producer, commit=commit)
            script.note(script.state(tid) != "Ongoing")


def odd_groups(script: Script, name: str) -> None:
    """Groups that nobody is in, without a name, with a long one."""
    for version in OFFSETS_VERSIONS:
        tid = f"{name}-{version}"
        producer = script.init(tid)
        for group in ("", name, "a\u00e9\U0001f600\n", "g" * 32_767):
            script.add_offsets(tid, producer, group, version=version)
            script.describe(tid)
        script.complete(tid, producer, commit=version % 2 == 0)


def batches(script: Script, name: str) -> None:
    """What brokers ask about several transactions."""
    own = script.begin(f"{name}-1")
    other = script.begin(f"{name}-2", 1, 2)
    idle = script.init(f"{name}-3")
    for version in BATCHED_VERSIONS:
        for verify in (True, False):
            script.batched(
                part(f"{name}-1", own, [(TOPIC, (0,))], verify=verify),
                part(f"{name}-2", other, [(TOPIC, (1, 2))], verify=verify),
                part(f"{name}-unknown", other, [(TOPIC, (1, 2))], verify=verify),
                part("", other, [(TOPIC, (1,))], verify=verify),
                version=version,
            )
        for places in _ODD_PLACES:
            script.batched(
                part(f"{name}-1", own, places, verify=True),
                part(f"{name}-2", other._replace(epoch=9), places, verify=True),
                part(f"{name}-3", idle, places, verify=True),
                version=version,
            )
        script.describe(f"{name}-1", f"{name}-2", f"{name}-3")


def batches_that_add(script: Script, name: str) -> None:
    """The same without verify_only: partitions are added."""
    for version in BATCHED_VERSIONS:
        for number, places in enumerate(_ODD_PLACES):
            tid = f"{name}-{version}-{number}"
            producer = script.init(tid)
            script.batched(part(tid, producer, places, verify=False), version=version)
            script.describe(tid)
        first, second = f"{name}-{version}-a", f"{name}-{version}-b"
        one, two = script.init(first), script.init(second)
        script.batched(
            part(first, one, [(TOPIC, (0,))], verify=False),
            part(second, two, [(TOPIC, (0,))], verify=True),
            version=version,
        )
        script.describe(first, second)


# -- what there is ------------------------------------------------------------------------------------------------


_STATES: Final = ("Empty", "Ongoing", "CompleteCommit", "CompleteAbort", "PrepareCommit", "PrepareAbort")


def lists(script: Script, name: str) -> None:
    """Filters of ListTransactions, and DescribeTransactions of every state that lasts."""
    producers = {state: script.init(f"{name}-{state}") for state in _STATES}
    own = [one.producer_id for one in producers.values()]
    with stuck_until_the_end(script.bootstrap, _stuck_of(lists)) as topic:
        for state in _STATES[1:]:
            place = topic if state.startswith("Prepare") else TOPIC
            script.add(f"{name}-{state}", producers[state], [(place, (0,))])
        for state in _STATES[2:]:
            script.end(f"{name}-{state}", producers[state], commit=state.endswith("Commit"))
            script.wait_for_state(f"{name}-{state}", state)
        script.describe(*(f"{name}-{state}" for state in _STATES), f"{name}-unknown", "", f"{name}-Empty")
        _by_state(script, own)
        _by_producer(script, own)
        _by_duration(script, own)


def _by_state(script: Script, own: Sequence[int]) -> None:
    wanted: list[list[str]] = [[one] for one in (*_STATES, "Dead", "PrepareEpochFence", "empty", "", "Gone")]
    wanted += [["Empty", "Ongoing"], ["Ongoing", "Ongoing"], ["Gone", "Ongoing", "Lost"], ["Gone", "Gone"]]
    for version in LIST_VERSIONS:
        for states in wanted:
            script.list(states=states, producer_ids=own, version=version)


def _by_producer(script: Script, own: Sequence[int]) -> None:
    nobody = UNKNOWN_PRODUCER.producer_id
    for version in LIST_VERSIONS:
        for ids in (own, own[:1], own[1:3], [own[1], own[1]], [nobody], [nobody, own[0]], [-1]):
            script.list(producer_ids=ids, version=version)
            script.list(producer_ids=ids, states=["Ongoing"], version=version)


def _by_duration(script: Script, own: Sequence[int]) -> None:
    request = ListTransactionsRequest(producer_id_filters=list(own), duration_filter=20)
    wait_for(lambda: len(script.client.call(request, 1).transaction_states) == len(own), what="20 ms")
    for duration_ms in (-2, -1, 0, 20, 10_000_000, 2**62):
        script.list(producer_ids=own, duration_ms=duration_ms)
        script.list(producer_ids=own, duration_ms=duration_ms, states=["Ongoing", "Gone"])


# -- names --------------------------------------------------------------------------------------------------------


def odd_names(script: Script, name: str) -> None:
    """Ids of any characters, and as long as the protocol allows."""
    for odd in (
        " ",
        "\0",
        "..",
        "a/b",
        "\n\t",
        "\u00e9",
        "\U0001f600" * 9,
        "\ufffd",
        "x" * 249,
        "y" * 10_000,
    ):
        tid = f"{name}{odd}"
        producer = script.init(tid)
        script.add(tid, producer, [(TOPIC, (0,))])
        script.add_offsets(tid, producer)
        script.describe(tid)
        script.complete(tid, producer, commit=True)
        script.describe(tid)
    longest = name + "z" * (32_767 - len(name))
    for version in INIT_VERSIONS:
        producer = script.init(longest, version=version)
    for version in ADD_VERSIONS:
        script.add(longest, producer, [(TOPIC, (0,))], version=version)
    for version in OFFSETS_VERSIONS:
        script.add_offsets(longest, producer, version=version)
    script.describe(longest)
    script.complete(longest, producer, commit=False)


def oversized_names(script: Script, name: str) -> None:
    """Ids and groups of 32,768 bytes, which newer versions could name: the connection is closed."""
    longer = name + "z" * (32_768 - len(name))
    for version in INIT_VERSIONS[2:]:
        script.init(longer, version=version)
    for producer in (Identity(), UNKNOWN_PRODUCER):
        for version in ADD_VERSIONS[3:]:
            script.add(longer, producer, [(TOPIC, (0,))], version=version)
        for version in OFFSETS_VERSIONS[3:]:
            script.add_offsets(longer, producer, version=version)
        for version in END_VERSIONS[3:]:
            script.end(longer, producer, version=version)
        for version in BATCHED_VERSIONS:
            script.batched(part(longer, producer, [(TOPIC, (0,))], verify=True), version=version)
    own = script.init(name)
    for version in OFFSETS_VERSIONS[3:]:
        script.add_offsets(name, own, "g" * 32_768, version=version)
    script.describe(longer)
    script.describe(name)


SCRIPTS: Final = (
    bad_inits,
    epochs_grow,
    bumps,
    bumps_of_unused_ids,
    inits_over_open_transactions,
    bumps_over_open_transactions,
    transactions_of_every_version,
    ends_of_nothing,
    strangers,
    while_markers_are_owed,
    produce_while_markers_are_owed,
    while_a_fence_is_owed,
    transactions_time_out,
    time_out_while_markers_are_owed,
    odd_partitions,
    transactions_without_partitions,
    odd_groups,
    batches,
    batches_that_add,
    lists,
    odd_names,
    oversized_names,
)
STUCK_SCRIPTS: Final = (
    while_markers_are_owed,
    produce_while_markers_are_owed,
    while_a_fence_is_owed,
    time_out_while_markers_are_owed,
    lists,
)
"""Those that need a topic in which no marker can be written."""


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_the_answers_are_kafkas(both: OneOfEach, script: Callable[[Script, str], None]) -> None:
    name = new_name("x")

    def play(bootstrap: str) -> list[Any]:
        with Script(bootstrap) as player:
            script(player, name)
            return player.answers

    assert both.answers(play)
