"""What ACLs do to real clients of real processes, and when a change of them counts.

tests/interop/test_acls.py compares each answer with Apache Kafka's; here is what needs several processes, or time.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest

from pkafka.clients.consumer.consumer import Consumer
from pkafka.clients.producer.producer import Producer
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition
from pkafka.protocol.messages import metadata
from pkafka.security.acl import Operation, PatternType, Permission, ResourceType
from pkafka.testing import Broker, BrokerStartError
from tests.acl_rules import (
    ADMIN,
    AUTHORIZER,
    OTHER,
    SUBJECT,
    Rule,
    add_rules,
    open_to_admin,
    set_rules,
)
from tests.e2e.conftest import WORKERS
from tests.faults.family import holder
from tests.raw_client import (
    RawClient,
    ask_offsets,
    at_once,
    batch,
    create_topic,
    fetch_request,
    fetched,
    produce_request,
    produce_to,
    records_of,
)
from tests.sockets import unread_bytes
from tests.talk import talking, wait_for

TOPIC = ResourceType.TOPIC
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
NEW_SESSION = (0, 0)


def reads(topic: str, **more: object) -> Rule:
    """The client may read a topic."""
    return Rule(TOPIC, topic, Operation.READ, **more)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def broker_settings() -> dict[str, object]:
    """Whatever no rule is about is open until the first rules are there, which need a client that may make them."""
    return {
        "pkafka.workers": WORKERS,
        "authorizer.class.name": AUTHORIZER,
        "allow.everyone.if.no.acl.found": "true",
        "offsets.topic.num.partitions": 1,
    }


@pytest.fixture(scope="module", autouse=True)
def rules_of_the_admin(own_address: str) -> None:
    open_to_admin(own_address)


@pytest.fixture(scope="module")
def own_address(broker: Broker | None) -> str:
    if broker is None:
        pytest.skip("has the rules of its own broker")
    return broker.bootstrap


@contextmanager
def clients_everywhere(broker: Broker, source: str, each: int = 3) -> Iterator[list[RawClient]]:
    """Connections from an address, at least so many to each worker."""
    clients: dict[str, list[RawClient]] = {f"worker-{number}": [] for number in range(WORKERS)}
    with ExitStack() as stack:
        while any(len(some) < each for some in clients.values()):
            client = stack.enter_context(RawClient(broker.bootstrap, source=source))
            wait_for(lambda: holder(broker, client.port), what="a worker")  # noqa: B023 - called at once
            clients[str(holder(broker, client.port))].append(client)
        yield [client for some in clients.values() for client in some]


def seen_topics(client: RawClient, topics: Sequence[str] | None = None) -> dict[str, ErrorCode]:
    """What Metadata tells a client, of all topics or of some."""
    wanted = None if topics is None else [metadata.MetadataRequestTopic(name=one) for one in topics]
    request = metadata.MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
    return {one.name: ErrorCode(one.error_code) for one in client.call(request, 9).topics}


# -- the project's own clients --


def test_a_producer_and_a_consumer_are_kept_out_and_let_in(own_address: str) -> None:
    topic = create_topic(own_address)
    key = TopicPartition(topic, 0)
    refused = [
        Rule(TOPIC, topic, one, Permission.DENY, host=ADMIN) for one in (Operation.READ, Operation.WRITE)
    ]
    keys = {"bootstrap.servers": own_address}
    reading = {**keys, "auto.offset.reset": "earliest"}
    with RawClient(own_address) as admin, talking(own_address) as talk:
        add_rules(admin, refused)
        with Producer(keys) as producer:
            with pytest.raises(ApiError) as unwritten:
                producer.send(topic, b"x").result(60)
            assert unwritten.value.code is DENIED
            with Consumer(reading) as consumer:
                consumer.assign([key])
                with pytest.raises(ApiError) as unread:
                    consumer.poll(60_000)
            assert unread.value.code is DENIED
            for rule in refused:
                talk.admin.delete_acls([rule.filter()])
            assert producer.send(topic, b"y").result(60).offset == 0
        with Consumer(reading) as consumer:
            consumer.assign([key])
            assert [record.value for record in consumer.poll(60_000)] == [b"y"]


# -- when a change counts --


def test_a_change_counts_at_every_worker_once_it_is_answered(broker: Broker, own_address: str) -> None:
    topic = create_topic(own_address, WORKERS)
    with clients_everywhere(broker, SUBJECT) as clients:
        for round in range(10):
            set_rules(own_address, [reads(topic)])
            for client in clients:
                places = {(topic, round % WORKERS): 0}
                response = client.call(fetch_request(places, max_wait_ms=0), 12)
                assert [part.error_code for part in fetched(response).values()] == [0]
                assert seen_topics(client, [topic]) == {topic: ErrorCode.NONE}
            set_rules(own_address, [])
            for client in clients:
                response = client.call(fetch_request(places, max_wait_ms=0), 12)
                assert [part.error_code for part in fetched(response).values()] == [DENIED]
                assert seen_topics(client, [topic]) == {topic: DENIED}


def test_many_change_rules_at_once(own_address: str) -> None:
    topics = [create_topic(own_address) for _ in range(2)]
    set_rules(own_address, [])

    def add(writer: int) -> None:
        with RawClient(own_address) as admin:
            for number in range(10):
                user = f"User:{writer}-{number}"
                add_rules(admin, [Rule(TOPIC, one, Operation.READ, principal=user) for one in topics])

    writers = 8
    at_once([partial(add, writer) for writer in range(writers)])
    with talking(own_address) as talk:
        known = [acl for acl in talk.admin.describe_acls() if acl.pattern.name in topics]
    assert len(known) == len(set(known)) == 2 * writers * 10
    set_rules(own_address, [])


def test_a_fetch_that_waits_is_answered_by_the_rules_of_its_arrival(broker: Broker, own_address: str) -> None:
    """As in Kafka: nobody is asked again while a fetch waits, and the next one is refused."""
    topic = create_topic(own_address)
    set_rules(own_address, [reads(topic)])
    with RawClient(own_address, source=SUBJECT) as client, RawClient(own_address) as writer:
        client.send(fetch_request({(topic, 0): 0}, max_wait_ms=3_600_000), 12)
        wait_for(lambda: unread_bytes(broker.port) == 0, what="its arrival")
        set_rules(own_address, [])
        assert produce_to(writer, topic, batch(b"x"))[0] == ErrorCode.NONE
        assert [records_of(part)[0].value for part in fetched(client.receive()).values()] == [b"x"]
        refused = client.call(fetch_request({(topic, 0): 0}, max_wait_ms=60_000), 12)
        assert [part.error_code for part in fetched(refused).values()] == [DENIED]


def test_a_denied_topic_does_not_cut_short_a_wait(own_address: str) -> None:
    quiet, hidden = create_topic(own_address), create_topic(own_address)
    set_rules(own_address, [reads(quiet)])
    with RawClient(own_address, source=SUBJECT) as client:
        began = time.monotonic()
        response = client.call(fetch_request({(hidden, 0): 0, (quiet, 0): 0}, max_wait_ms=400), 12)
        assert time.monotonic() - began >= 0.4
    assert {key: part.error_code for key, part in fetched(response).items()} == {
        (hidden, 0): DENIED,
        (quiet, 0): 0,
    }


# -- fetch sessions --


def test_a_session_loses_a_topic_and_has_it_again(own_address: str) -> None:
    kept, lost = create_topic(own_address), create_topic(own_address)
    both = [reads(kept), reads(lost)]
    set_rules(own_address, both)
    with RawClient(own_address, source=SUBJECT) as client, RawClient(own_address) as writer:
        for topic in (kept, lost):
            assert produce_to(writer, topic, batch(b"1"))[0] == ErrorCode.NONE
        places = {(kept, 0): 0, (lost, 0): 0}
        first = client.call(fetch_request(places, session=NEW_SESSION), 12)
        assert {key: len(records_of(part)) for key, part in fetched(first).items()} == {
            (kept, 0): 1,
            (lost, 0): 1,
        }
        session = first.session_id
        places = {(kept, 0): 1, (lost, 0): 1}
        quiet = client.call(fetch_request(places, session=(session, 1), max_wait_ms=0), 12)
        assert fetched(quiet) == {}
        set_rules(own_address, [reads(kept)])
        assert produce_to(writer, lost, batch(b"2"))[0] == ErrorCode.NONE
        # Told with every answer, as every error is.
        for epoch in (2, 3):
            refused = client.call(fetch_request({}, session=(session, epoch), max_wait_ms=0), 12)
            assert {key: part.error_code for key, part in fetched(refused).items()} == {(lost, 0): DENIED}
            assert not any(part.records for part in fetched(refused).values())
        set_rules(own_address, both)
        again = client.call(fetch_request({}, session=(session, 4)), 12)
        assert {
            key: [record.value for record in records_of(part, 1)] for key, part in fetched(again).items()
        } == {(lost, 0): [b"2"]}


# -- produce --


def test_a_denied_record_without_acks_ends_the_connection(own_address: str) -> None:
    topic = create_topic(own_address)
    set_rules(own_address, [])
    with RawClient(own_address, source=SUBJECT) as client:
        client.send(produce_request({(topic, 0): batch(b"x")}, acks=0), 9)
        assert client.is_closed()
    with RawClient(own_address) as admin:
        assert ask_offsets(admin, {(topic, 0): -1}) == {(topic, 0): (ErrorCode.NONE, 0)}


def test_what_is_allowed_in_a_request_is_written(own_address: str) -> None:
    mine, theirs = create_topic(own_address, WORKERS), create_topic(own_address, WORKERS)
    set_rules(own_address, [Rule(TOPIC, mine, Operation.WRITE)])
    with RawClient(own_address, source=SUBJECT) as client:
        places = [(topic, partition) for topic in (theirs, mine) for partition in range(WORKERS)]
        answer = client.call(produce_request({place: batch(b"x") for place in places}), 9)
    codes = {
        (topic.name, part.index): part.error_code
        for topic in answer.responses
        for part in topic.partition_responses
    }
    assert codes == {place: DENIED if place[0] == theirs else 0 for place in places}


# -- metadata --


def test_each_client_is_told_of_its_own_topics(own_address: str) -> None:
    mine, yours, hidden = (create_topic(own_address) for _ in range(3))
    set_rules(own_address, [reads(mine), reads(yours, host=OTHER)])
    topics = {mine, yours, hidden}
    with (
        RawClient(own_address, source=SUBJECT) as subject,
        RawClient(own_address, source=OTHER) as other,
        RawClient(own_address) as admin,
    ):
        for _ in range(3):  # answers are kept
            assert seen_topics(subject).keys() & topics == {mine}
            assert seen_topics(other).keys() & topics == {yours}
            assert seen_topics(admin).keys() >= topics
    prefix = mine[:-1]
    set_rules(own_address, [reads(prefix, kind=PatternType.PREFIXED)])
    with RawClient(own_address, source=SUBJECT) as subject:
        assert all(one.startswith(prefix) for one in seen_topics(subject))


# -- a restart --


def test_rules_are_there_after_a_restart(tmp_path: Path) -> None:
    settings = {"pkafka.workers": WORKERS, "authorizer.class.name": AUTHORIZER, "super.users": ""}
    broker = Broker(tmp_path / "broker", {**settings, "allow.everyone.if.no.acl.found": "true"})
    broker.start()
    try:
        topic, hidden = create_topic(broker.bootstrap), create_topic(broker.bootstrap)
        open_to_admin(broker.bootstrap)
        set_rules(broker.bootstrap, [reads(topic)])
        assert broker.stop() == 0
        broker.start()
        with clients_everywhere(broker, SUBJECT) as clients:
            for client in clients:
                assert seen_topics(client, [topic, hidden]) == {topic: ErrorCode.NONE, hidden: DENIED}
    finally:
        broker.stop()


def test_no_rules_and_nobody_may_do_anything(tmp_path: Path) -> None:
    broker = Broker(tmp_path, {"pkafka.workers": 1, "authorizer.class.name": AUTHORIZER})
    broker.start()  # which takes no rights of a client
    try:
        with RawClient(broker.bootstrap) as client:
            assert seen_topics(client, ["t"]) == {"t": DENIED}
    finally:
        broker.stop()


def test_super_users_need_no_rules(tmp_path: Path) -> None:
    settings = {"authorizer.class.name": AUTHORIZER, "super.users": "User:root;User:ANONYMOUS"}
    broker = Broker(tmp_path, {"pkafka.workers": 1, **settings})
    broker.start()
    try:
        topic = create_topic(broker.bootstrap)
        with RawClient(broker.bootstrap) as client:
            assert produce_to(client, topic, batch(b"x")) == (ErrorCode.NONE, 0)
    finally:
        broker.stop()


# -- a class of the operator --

HOUSE_RULES = """
from pathlib import Path

class Authorizer:
    def configure(self, configs):
        self.prefix = configs["house.prefix"]
        self.diary = Path(configs["house.diary"])
    def authorize(self, principal, host, operation, resource):
        if resource.name == "broken":
            raise RuntimeError("what now?")
        with self.diary.open("a") as diary:
            print(principal, host, operation, resource.type, resource.name, file=diary)
        return host == "127.0.0.1" or resource.name.startswith(self.prefix)
    def close(self):
        with self.diary.open("a") as diary:
            print("closed", file=diary)
"""


@pytest.mark.parametrize("name", ["house_rules.Authorizer", "house_rules:Authorizer"])
def test_a_class_of_the_operator_decides(tmp_path: Path, name: str) -> None:
    (tmp_path / "house_rules.py").write_text(HOUSE_RULES)
    diary = tmp_path / "diary"
    settings = {
        "pkafka.workers": WORKERS,
        "authorizer.class.name": name,
        "house.prefix": "t-",
        "house.diary": diary,
    }
    broker = Broker(tmp_path / "broker", settings, environment={"PYTHONPATH": str(tmp_path)})
    broker.start()
    try:
        topic = create_topic(broker.bootstrap)
        with RawClient(broker.bootstrap, source=SUBJECT) as client:
            assert seen_topics(client, [topic, "x", "broken"]) == {
                topic: ErrorCode.NONE,
                "x": DENIED,
                "broken": DENIED,
            }
            assert produce_to(client, topic, batch(b"x")) == (ErrorCode.NONE, 0)
        with talking(broker.bootstrap) as talk, pytest.raises(ApiError) as refused:
            talk.admin.describe_acls()
        assert refused.value.code is ErrorCode.SECURITY_DISABLED
    finally:
        broker.stop()
    lines = diary.read_text().splitlines()
    assert f"User:ANONYMOUS {SUBJECT} Write Topic {topic}" in lines
    assert lines[-1] == "closed"
    assert "what now?" in broker.log_file.read_text()


def test_a_class_that_is_not_there_lets_nobody_in(tmp_path: Path) -> None:
    broker = Broker(tmp_path, {"authorizer.class.name": "com.example.Authorizer"})
    with pytest.raises(BrokerStartError) as refused:
        broker.start()
    assert refused.value.reason.startswith(
        "authorizer.class.name=com.example.Authorizer: Class com.example.Authorizer could not be found"
    )
