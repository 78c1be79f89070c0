"""Fetch on real processes: sessions, size limits, long polls, old versions, connections that move between workers."""

import itertools
import struct
import threading
import time
from functools import partial

import pytest

from pkafka.errors import ErrorCode
from pkafka.protocol.messages import api_versions, delete_records, delete_topics, fetch
from pkafka.records.batch import read_header
from pkafka.records.compression import Codec
from pkafka.server.replicas.partitions import owner_of
from pkafka.testing import Broker
from tests.e2e.conftest import WORKERS
from tests.faults.family import holder
from tests.raw_client import (
    RawClient,
    ask_offsets,
    at_once,
    batch,
    create_topic,
    fetch_from,
    fetch_request,
    fetched,
    new_topic_name,
    produce_request,
    produce_to,
    records_of,
    topic_id,
)
from tests.talk import wait_for

pytestmark = pytest.mark.usefixtures("no_error_is_logged")

NEW_SESSION = (0, 0)
AN_HOUR_MS = 3_600_000
"""Much longer than a client waits for an answer: what it gets is not what it gets when its time is over."""


def values(part: object, from_offset: int = 0) -> list[bytes | None]:
    return [record.value for record in records_of(part, from_offset)]


def write(client: RawClient, topic: str, *texts: bytes, partition: int = 0, **options: object) -> int:
    """Produce one batch; its base offset."""
    code, offset = produce_to(client, topic, batch(*texts, **options), partition)  # type: ignore[arg-type]
    assert code == ErrorCode.NONE, code
    return offset


# -- sessions (KIP-227) --


def test_an_incremental_fetch_tells_only_what_changed(address: str, client: RawClient) -> None:
    topic = create_topic(address, 4)
    with RawClient(address) as writer:
        write(writer, topic, b"a", partition=1)
        first = client.call(fetch_request({(topic, n): 0 for n in range(4)}, session=NEW_SESSION), 12)
        assert first.error_code == 0
        assert first.session_id > 0
        assert set(fetched(first)) == {(topic, n) for n in range(4)}
        session = first.session_id
        # Nothing new, and partition 1 is read on from 1: no partition is mentioned.
        second = client.call(fetch_request({(topic, 1): 1}, session=(session, 1), max_wait_ms=100), 12)
        assert (second.error_code, second.session_id, fetched(second)) == (0, session, {})
        write(writer, topic, b"b", partition=3)
        third = client.call(fetch_request({}, session=(session, 2)), 12)
        assert {key: values(part) for key, part in fetched(third).items()} == {(topic, 3): [b"b"]}
        # Forgotten partitions are no longer told of, new ones are.
        change = fetch_request({(topic, 3): 1}, session=(session, 3), forgotten=[(topic, 1)], max_wait_ms=0)
        assert fetched(client.call(change, 12)) == {}
        write(writer, topic, b"c", partition=1)
        write(writer, topic, b"d", partition=2)
        fifth = client.call(fetch_request({}, session=(session, 4)), 12)
        assert set(fetched(fifth)) == {(topic, 2)}


def test_a_session_ends_when_it_is_told_to(address: str, client: RawClient) -> None:
    topic = create_topic(address)
    session = client.call(fetch_request({(topic, 0): 0}, session=NEW_SESSION, max_wait_ms=0), 12).session_id
    last = client.call(fetch_request({(topic, 0): 0}, session=(session, -1), max_wait_ms=0), 12)
    assert (last.error_code, last.session_id) == (0, 0)
    after = client.call(fetch_request({}, session=(session, 1), max_wait_ms=0), 12)
    assert after.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize("epoch", [2, 7, 2**31 - 1])
def test_a_session_goes_on_only_with_its_next_epoch(address: str, client: RawClient, epoch: int) -> None:
    topic = create_topic(address)
    session = client.call(fetch_request({(topic, 0): 0}, session=NEW_SESSION, max_wait_ms=0), 12).session_id
    wrong = client.call(fetch_request({}, session=(session, epoch), max_wait_ms=0), 12)
    assert wrong.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    right = client.call(fetch_request({}, session=(session, 1), max_wait_ms=0), 12)
    assert right.error_code == 0


def test_an_unknown_session_is_refused(client: RawClient) -> None:
    response = client.call(fetch_request({}, session=(12_345, 1), max_wait_ms=0), 12)
    assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_stays_with_names_or_with_ids(address: str, client: RawClient) -> None:
    topic = create_topic(address)
    by_name = client.call(fetch_request({(topic, 0): 0}, session=NEW_SESSION, max_wait_ms=0), 12).session_id
    mixed = client.call(fetch_request({}, session=(by_name, 1), max_wait_ms=0), 13)
    assert mixed.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_sessions_by_topic_id(address: str, client: RawClient) -> None:
    topic = create_topic(address, 2)
    known = topic_id(client, topic)
    write(client, topic, b"x", partition=1)
    first = client.call(fetch_request({(known, 0): 0, (known, 1): 0}, session=NEW_SESSION), 15)
    assert values(fetched(first)[known, 1]) == [b"x"]
    write(client, topic, b"y", partition=0)
    change = fetch_request({(known, 1): 1}, session=(first.session_id, 1))
    assert set(fetched(client.call(change, 15))) == {(known, 0)}


def test_no_session_begins_with_topics_of_which_none_is_known(address: str, client: RawClient) -> None:
    """Which worker owns them is not known either, and a session stays where it begins."""
    unknown = (b"\x02" * 16, 0)
    only = client.call(fetch_request({unknown: 0}, session=NEW_SESSION, max_wait_ms=0), 13)
    assert (only.error_code, only.session_id) == (0, 0)
    known = topic_id(client, create_topic(address))
    both = client.call(fetch_request({unknown: 0, (known, 0): 0}, session=NEW_SESSION, max_wait_ms=0), 13)
    assert both.session_id > 0


def test_unknown_topics_by_name_and_by_id(client: RawClient) -> None:
    name = new_topic_name()
    assert fetch_from(client, name, 0).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    response = client.call(fetch_request({(b"\x01" * 16, 0): 0}, session=(0, -1)), 13)
    [part] = fetched(response).values()
    assert part.error_code == ErrorCode.UNKNOWN_TOPIC_ID


# -- sizes (KIP-74) --


def test_a_batch_larger_than_every_limit_comes_whole(address: str, client: RawClient) -> None:
    topic = create_topic(address)
    write(client, topic, b"x" * 50_000)
    write(client, topic, b"y" * 50_000)
    part = fetch_from(client, topic, 0, max_bytes=10, partition_max_bytes=10)
    assert values(part) == [b"x" * 50_000]


def test_only_the_first_partition_with_records_may_exceed_the_limits(address: str, client: RawClient) -> None:
    topic = create_topic(address, 4)
    for partition in (1, 2, 3):
        write(client, topic, b"%d" % partition * 10_000, partition=partition)
    request = fetch_request({(topic, n): 0 for n in range(4)}, max_bytes=100)
    found = {key[1]: values(part) for key, part in fetched(client.call(request, 12)).items()}
    assert found == {0: [], 1: [b"1" * 10_000], 2: [], 3: []}
    # The partition's own limit does not hold back what exceeds it in the first place either.
    request = fetch_request({(topic, n): 0 for n in (2, 3)}, partition_max_bytes=100)
    found = {key[1]: values(part) for key, part in fetched(client.call(request, 12)).items()}
    assert found == {2: [b"2" * 10_000], 3: []}


def test_the_limit_of_a_fetch_counts_over_the_partitions_of_all_workers(
    address: str, client: RawClient
) -> None:
    topic = create_topic(address, 8)
    for partition in range(8):
        for _ in range(10):
            write(client, topic, b"x" * 1_000, partition=partition)
    request = fetch_request({(topic, n): 0 for n in range(8)}, max_bytes=25_000)
    parts = fetched(client.call(request, 12))
    sizes = [len(part.records or b"") for part in parts.values()]
    assert 20_000 < sum(sizes) <= 25_000
    everything = fetched(client.call(fetch_request({(topic, n): 0 for n in range(8)}), 12))
    assert [len(values(part)) for part in everything.values()] == [10] * 8
    assert list(everything) == [(topic, n) for n in range(8)]


def test_partitions_that_were_served_come_last_next_time(address: str, client: RawClient) -> None:
    topic = create_topic(address, 4)
    for partition in range(4):
        for _ in range(4):
            write(client, topic, b"x" * 10_000, partition=partition)
    offsets = dict.fromkeys(range(4), 0)
    request = fetch_request(
        {(topic, n): 0 for n in range(4)}, session=NEW_SESSION, max_bytes=10_500, partition_max_bytes=10_500
    )
    served = []
    for epoch in itertools.count(1):
        response = client.call(request, 12)
        progress: dict[tuple[str, int], int] = {}
        for (_topic, partition), part in fetched(response).items():
            records = records_of(part, offsets[partition])
            if records:
                served.append(partition)
                offsets[partition] = records[-1].offset + 1
                progress[topic, partition] = offsets[partition]
        if len(served) >= 8:
            break
        request = fetch_request(
            progress,
            session=(response.session_id, epoch),
            max_bytes=10_500,
            partition_max_bytes=10_500,
        )
    # Kafka counts from the first incremental fetch on.
    assert sorted(served[1:5]) == [0, 1, 2, 3]


# -- waiting --


@pytest.mark.parametrize("partitions", [1, 2, 5])
def test_a_fetch_waits_for_records_on_whichever_worker_they_come(
    address: str, client: RawClient, partitions: int
) -> None:
    topic = create_topic(address, partitions)
    with RawClient(address) as writer:
        for partition in range(partitions):
            offsets = {(topic, n): int(n < partition) for n in range(partitions)}
            client.send(fetch_request(offsets, max_wait_ms=AN_HOUR_MS), 12)
            time.sleep(0.05)  # long enough, nearly always, to be waiting before there is a record
            write(writer, topic, b"now", partition=partition)
            parts = fetched(client.receive())
            assert {key[1] for key, part in parts.items() if values(part)} == {partition}


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_fetch_ends_when_its_time_is_over_and_not_before(
    address: str, client: RawClient, partitions: int
) -> None:
    topic = create_topic(address, partitions)
    began = time.monotonic()
    parts = fetched(
        client.call(fetch_request({(topic, n): 0 for n in range(partitions)}, max_wait_ms=300), 12)
    )
    # The client gives up after a minute: of a wait that never ends. Brokers count whole milliseconds.
    assert time.monotonic() - began >= 0.298
    assert [part.error_code for part in parts.values()] == [0] * partitions


@pytest.mark.parametrize("partitions", [1, 2])
def test_a_fetch_waits_until_there_are_enough_bytes_in_all(
    address: str, client: RawClient, partitions: int
) -> None:
    topic = create_topic(address, partitions)
    with RawClient(address) as writer:
        request = fetch_request(
            {(topic, n): 0 for n in range(partitions)}, min_bytes=3_000, max_wait_ms=AN_HOUR_MS
        )
        client.send(request, 12)
        for number in range(2):
            write(writer, topic, b"x" * 1_000, partition=number % partitions)
        client.sock.settimeout(0.3)  # that no answer comes can only be seen by waiting for one
        with pytest.raises(TimeoutError):
            client.sock.recv(1)
        client.sock.settimeout(60)
        write(writer, topic, b"x" * 1_000)
        parts = fetched(client.receive())
        assert sum(len(values(part)) for part in parts.values()) == 3
        # Too little, but the time is over: what is there comes.
        few = fetch_request({(topic, 0): 0}, min_bytes=1_000_000, max_wait_ms=100)
        assert values(fetched(client.call(few, 12))[topic, 0])


def test_a_waiting_fetch_hears_that_its_topic_is_deleted(address: str, client: RawClient) -> None:
    topic = create_topic(address, 2)
    for places in ({(topic, 0): 0}, {(topic, 0): 0, (topic, 1): 0}):
        client.send(fetch_request(places, max_wait_ms=AN_HOUR_MS), 12)
        waiting = client
        client = RawClient(address)
    request = delete_topics.DeleteTopicsRequest(topic_names=[topic], timeout_ms=60_000)
    assert client.call(request, 5).responses[0].error_code == 0
    codes = {part.error_code for part in fetched(waiting.receive()).values()}
    assert codes & {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER}
    client.close()
    waiting.close()


def test_a_client_that_leaves_while_it_waits_disturbs_nobody(address: str, client: RawClient) -> None:
    topic = create_topic(address, 2)
    for _ in range(20):
        leaving = RawClient(address)
        leaving.send(fetch_request({(topic, 0): 0, (topic, 1): 0}, max_wait_ms=5_000), 12)
        leaving.close()
    write(client, topic, b"x")
    assert values(fetch_from(client, topic, 0)) == [b"x"]


# -- offsets and epochs --


def test_fetching_at_the_end_waits_and_beyond_it_is_an_error(address: str, client: RawClient) -> None:
    topic = create_topic(address)
    write(client, topic, b"a", b"b")
    part = fetch_from(client, topic, 2, max_wait_ms=50)
    assert (part.error_code, part.high_watermark, part.log_start_offset, values(part)) == (0, 2, 0, [])
    beyond = fetch_from(client, topic, 3, max_wait_ms=10_000)
    assert beyond.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_fetch_may_begin_within_a_batch(address: str, client: RawClient) -> None:
    topic = create_topic(address)
    write(client, topic, *[b"%d" % n for n in range(10)])
    part = fetch_from(client, topic, 7)
    assert read_header(part.records).base_offset == 0
    assert values(part, 7) == [b"7", b"8", b"9"]


def test_deleted_records_are_out_of_range(address: str, client: RawClient) -> None:
    topic = create_topic(address)
    for n in range(3):
        write(client, topic, b"%d" % n)
    request = delete_records.DeleteRecordsRequest(
        topics=[
            delete_records.DeleteRecordsTopic(
                name=topic,
                partitions=[delete_records.DeleteRecordsPartition(partition_index=0, offset=2)],
            )
        ],
        timeout_ms=60_000,
    )
    assert client.call(request, 2).topics[0].partitions[0].low_watermark == 2
    assert fetch_from(client, topic, 1).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    part = fetch_from(client, topic, 2)
    assert (part.log_start_offset, values(part, 2)) == (2, [b"2"])


def test_leader_epochs_are_compared(address: str, client: RawClient) -> None:
    topic = create_topic(address)
    write(client, topic, b"x")
    assert fetch_from(client, topic, 0, current_leader_epoch=0).error_code == 0
    newer = fetch_from(client, topic, 0, current_leader_epoch=5)
    assert newer.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    part = fetch_from(client, topic, 0, last_fetched_epoch=0)
    assert (part.error_code, part.diverging_epoch.epoch) == (0, -1)
    assert fetch_from(client, topic, 1, last_fetched_epoch=3).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    parted = fetch_from(client, topic, 2, last_fetched_epoch=0)
    assert (parted.error_code, parted.diverging_epoch.epoch, parted.diverging_epoch.end_offset) == (0, 0, 1)


def test_a_session_is_told_where_logs_part_until_that_is_over_and_then_what_is_committed(
    address: str, client: RawClient
) -> None:
    """A follower that cuts its log takes nothing else of an answer: told once, it would wait for the high watermark
    until the next record."""
    topic = create_topic(address)
    write(client, topic, b"x")

    def ask(session_id: int, epoch: int, *offsets: int) -> fetch.FetchResponse:
        partitions = [
            fetch.FetchPartition(
                partition=0, fetch_offset=each, last_fetched_epoch=0, partition_max_bytes=1000
            )
            for each in offsets
        ]
        request = fetch.FetchRequest(
            replica_id=-1,
            max_bytes=1000,
            session_id=session_id,
            session_epoch=epoch,
            topics=[fetch.FetchTopic(topic=topic, partitions=partitions)] if partitions else [],
        )
        response: fetch.FetchResponse = client.call(request, 12)
        return response

    first = ask(0, 0, 2)
    for answer in (first, ask(first.session_id, 1)):
        [told] = answer.responses
        assert told.partitions[0].diverging_epoch == fetch.EpochEndOffset(epoch=0, end_offset=1)
    [over] = ask(first.session_id, 2, 1).responses
    assert (over.partitions[0].diverging_epoch.epoch, over.partitions[0].high_watermark) == (-1, 1)
    assert ask(first.session_id, 3).responses == []


def test_read_committed_names_aborted_transactions_and_read_uncommitted_does_not(
    address: str, client: RawClient
) -> None:
    topic = create_topic(address)
    write(client, topic, b"x")
    committed = fetch_from(client, topic, 0, isolation_level=1)
    assert (committed.last_stable_offset, committed.aborted_transactions) == (1, [])
    assert values(committed) == [b"x"]
    assert fetch_from(client, topic, 0).aborted_transactions is None


# -- versions --


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.LZ4])
@pytest.mark.parametrize("version", range(18))
def test_every_version_reads_the_same_values(
    address: str, client: RawClient, version: int, codec: Codec
) -> None:
    topic = create_topic(address)
    write(client, topic, b"one", b"two", codec=codec)
    write(client, topic, b"three", codec=codec)
    name: str | bytes = topic if version < 13 else topic_id(client, topic)
    response = client.call(fetch_request({(name, 0): 0}), version)
    [part] = fetched(response).values()
    assert part.error_code == 0
    assert part.high_watermark == 3
    got = values(part)
    if version < 4 and len(got) == 2:
        # Converted batches may need more room than the log had for them: the rest comes with the next fetch.
        got += values(fetch_from(client, topic, 2, version=version), 2)
    assert got == [b"one", b"two", b"three"]
    magic = bytes(part.records)[16]
    assert magic == (0 if version < 2 else 1 if version < 4 else 2)


def test_clients_from_before_zstd_are_told(address: str, client: RawClient) -> None:
    topic = create_topic(address, compression_type="zstd")
    write(client, topic, b"x")
    for version in (2, 9):
        refused = fetch_from(client, topic, 0, version=version)
        assert refused.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    part = fetch_from(client, topic, 0, version=10)
    assert read_header(part.records).codec == Codec.ZSTD
    assert values(part) == [b"x"]


@pytest.mark.parametrize("version", [1, 3])
def test_old_clients_get_what_precedes_a_batch_of_zstd(address: str, client: RawClient, version: int) -> None:
    topic = create_topic(address)
    write(client, topic, b"0", b"1")
    write(client, topic, b"2", codec=Codec.ZSTD)
    write(client, topic, b"3")
    for offset, found in ((0, [b"0", b"1"]), (1, [b"1"]), (3, [b"3"])):
        assert values(fetch_from(client, topic, offset, version=version)) == found
    refused = fetch_from(client, topic, 2, version=version)
    assert (refused.error_code, refused.records) == (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, None)


def test_old_clients_are_told_when_conversion_is_off(address: str, client: RawClient) -> None:
    topic = create_topic(address, message_downconversion_enable="false")
    write(client, topic, b"x")
    for offset in (0, 1, 99):  # whatever else is wrong
        assert fetch_from(client, topic, offset, version=3).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert values(fetch_from(client, topic, 0, version=4)) == [b"x"]


# -- order, and connections that move --


def test_answers_come_in_the_order_of_the_requests(address: str, client: RawClient) -> None:
    topic = create_topic(address, 4)
    other = create_topic(address)
    for partition in range(4):
        write(client, topic, b"%d" % partition, partition=partition)
    for number in range(50):
        client.send(fetch_request({(topic, number % 4): 0}), 12)
        client.send(fetch_request({(topic, n): 0 for n in range(4)}), 12)
        client.send(api_versions.ApiVersionsRequest(), 0)
        if number % 10 == 0:
            client.send(fetch_request({(other, 0): 0}, max_wait_ms=20), 12)
        client.send(produce_request({(topic, number % 4): batch(b"more")}), 9)
    for number in range(50):
        assert values(next(iter(fetched(client.receive()).values())))[0] == b"%d" % (number % 4)
        assert len(fetched(client.receive())) == 4
        assert client.receive().api_keys
        if number % 10 == 0:
            assert list(fetched(client.receive())) == [(other, 0)]
        assert client.receive().responses[0].partition_responses[0].error_code == 0


@pytest.mark.parametrize("partition", range(WORKERS))
def test_a_consumer_of_one_partition_ends_at_its_owner(own_broker: Broker, partition: int) -> None:
    topic = create_topic(own_broker.bootstrap, WORKERS)
    owner = f"worker-{owner_of(topic, partition, WORKERS)}"
    with RawClient(own_broker.bootstrap) as writer:
        write(writer, topic, b"x" * 500_000, partition=partition)
    clients = [RawClient(own_broker.bootstrap) for _ in range(6)]
    for client in clients:
        for _ in range(10):
            part = fetch_from(client, topic, 0, partition, session=(0, 0))
            assert values(part) == [b"x" * 500_000]
        wait_for(lambda: holder(own_broker, client.port) == owner)  # noqa: B023 - called at once
        client.close()


def test_a_consumer_with_a_session_is_moved_before_the_session_begins(address: str) -> None:
    topic = create_topic(address, WORKERS)
    for partition in range(WORKERS):
        with RawClient(address) as client:
            session, epoch = NEW_SESSION
            for number in range(5):
                write(client, topic, b"%d" % number, partition=partition)
                places = {(topic, partition): number}
                response = client.call(fetch_request(places, session=(session, epoch)), 12)
                assert response.error_code == 0
                [part] = fetched(response).values()
                assert values(part, number) == [b"%d" % number]
                session, epoch = response.session_id, epoch + 1


def test_moving_loses_no_byte_of_what_was_pipelined(address: str) -> None:
    """Requests for partitions of all workers, in pieces of odd sizes: the connection moves in the middle of frames."""
    topic = create_topic(address, 4)
    with RawClient(address) as writer:
        for partition in range(4):
            write(writer, topic, b"%d" % partition, partition=partition)
    with RawClient(address) as client:
        order = [number // 7 % 4 for number in range(140)]
        stream = b"".join(client.encoded(fetch_request({(topic, n): 0}), 12) for n in order)

        def send() -> None:
            for start in range(0, len(stream), 53):
                client.send_bytes(stream[start : start + 53])

        sender = threading.Thread(target=send)
        sender.start()
        for partition in order:
            [part] = fetched(client.receive()).values()
            assert values(part) == [b"%d" % partition]
        sender.join()


def test_readers_and_writers_of_all_partitions_at_once(address: str) -> None:
    topic = create_topic(address, 4)
    count = 60

    def produce(partition: int) -> None:
        with RawClient(address) as client:
            for number in range(count):
                write(client, topic, struct.pack(">I", number) * 500, partition=partition)

    def consume(first: int) -> None:
        with RawClient(address) as client:
            offsets = dict.fromkeys(range(4), first)
            while min(offsets.values()) < count:
                places = {(topic, n): offset for n, offset in offsets.items()}
                for (_topic, partition), part in fetched(client.call(fetch_request(places), 12)).items():
                    assert part.error_code == 0
                    for record in records_of(part, offsets[partition]):
                        assert record.offset == offsets[partition]
                        assert record.value == struct.pack(">I", record.offset) * 500
                        offsets[partition] += 1

    at_once([*(partial(produce, n) for n in range(4)), *[partial(consume, 0)] * 4])


# -- offsets of several workers --


def test_list_offsets_over_partitions_of_all_workers(address: str, client: RawClient) -> None:
    topic = create_topic(address, 6, retention_ms=-1)
    for partition in range(6):
        for number in range(partition):
            write(client, topic, b"x", b"y", partition=partition, timestamp=1_000_000 + 1_000 * number)
    keys = range(6)
    latest = ask_offsets(client, {(topic, n): -1 for n in keys})
    assert latest == {(topic, n): (ErrorCode.NONE, 2 * n) for n in keys}
    earliest = ask_offsets(client, {(topic, n): -2 for n in keys})
    assert earliest == {(topic, n): (ErrorCode.NONE, 0) for n in keys}
    by_time = ask_offsets(client, {(topic, n): 1_001_500 for n in keys})
    assert by_time == {(topic, n): (ErrorCode.NONE, 4 if n > 2 else -1) for n in keys}
    # Of records of the same time, the first one counts.
    largest = ask_offsets(client, {(topic, n): -3 for n in keys})
    assert largest == {(topic, n): (ErrorCode.NONE, 2 * n - 2 if n else -1) for n in keys}
    assert ask_offsets(client, {(topic, 5): -4}, version=8)[topic, 5] == (ErrorCode.NONE, 0)
    assert ask_offsets(client, {(topic, 5): -5}, version=9)[topic, 5] == (ErrorCode.NONE, -1)
    old = ask_offsets(client, {(topic, 5): -3}, version=6)[topic, 5]
    assert old == (ErrorCode.UNSUPPORTED_VERSION, -1)


def test_list_offsets_compares_leader_epochs(address: str, client: RawClient) -> None:
    topic = create_topic(address)
    key = (topic, 0)
    assert ask_offsets(client, {key: -1}, current_leader_epoch=0)[key] == (ErrorCode.NONE, 0)
    answer = ask_offsets(client, {key: -1}, current_leader_epoch=3)[key]
    assert answer == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1)
