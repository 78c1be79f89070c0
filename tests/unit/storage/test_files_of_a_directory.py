"""The small text files: checkpoints, identity, topic ids, the clean-shutdown mark; and the names of directories."""

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkafka.errors import ConfigError, StorageError
from pkafka.model import TopicPartition
from pkafka.storage.broker_metadata import BrokerMetadata, decode_broker_metadata, encode_broker_metadata
from pkafka.storage.checkpoints import decode_offsets, encode_offsets
from pkafka.storage.config import LogConfig
from pkafka.storage.leader_epochs import decode_epochs, encode_epochs
from pkafka.storage.log_directory import (
    DirectoryKind,
    LogDirectory,
    directory_with_fewest_partitions,
    log_start_offset_to_keep,
    parse_directory_name,
)
from pkafka.storage.partition_metadata import read_topic_id, write_topic_id
from pkafka.storage.recovery import LogEnvironment, create_log
from tests.unit.storage.makers import SMALL, FaultyFiles, append, everything

topics = st.from_regex(r"[a-zA-Z0-9_][a-zA-Z0-9._-]{0,20}", fullmatch=True)
partitions = st.builds(TopicPartition, topics, st.integers(0, 2**31 - 1))


@given(offsets=st.dictionaries(partitions, st.integers(0, 2**63 - 1), max_size=5))
def test_offset_checkpoints_give_back_what_they_took(offsets: dict[TopicPartition, int]) -> None:
    assert decode_offsets(encode_offsets(offsets), "here") == offsets


def test_an_offset_checkpoint_is_kafkas() -> None:
    text = b"0\n2\ntxn 0 841\n__transaction_state 0 122\n"
    offsets = {TopicPartition("txn", 0): 841, TopicPartition("__transaction_state", 0): 122}
    assert decode_offsets(text, "here") == offsets
    assert encode_offsets(offsets) == text
    # Kafka makes the files empty before it first writes them.
    assert decode_offsets(b"", "here") == {}


@pytest.mark.parametrize(
    "text", [b"1\n0\n", b"0\n2\na 0 1\n", b"0\n1\na 0\n", b"0\n1\na x 1\n", b"0\n", b"\xff"]
)
def test_a_damaged_offset_checkpoint_is_refused_with_its_name(text: bytes) -> None:
    with pytest.raises(StorageError, match="/data/some-checkpoint"):
        decode_offsets(text, "/data/some-checkpoint")


@given(junk=st.binary(max_size=60))
def test_junk_in_text_files_is_refused_and_nothing_worse(junk: bytes) -> None:
    for decode in (
        lambda: decode_offsets(junk, "x"),
        lambda: decode_epochs(junk),
        lambda: decode_broker_metadata(junk, "x"),
    ):
        with contextlib.suppress(StorageError):
            decode()


@pytest.mark.parametrize(
    "line", ["t 1_0 5", "t 0 1_0", "t 0\xa05", "t 0 5\u2028u 0 5", " t 0 5", "t 0 9223372036854775808"]
)
def test_a_line_that_java_cannot_read_is_damage(line: str) -> None:
    with pytest.raises(StorageError, match="line 3"):
        decode_offsets(f"0\n1\n{line}\n".encode(), "x")
    assert decode_offsets(b"0\r\n1\r\nt\t0  +5 \r\n", "x") == {TopicPartition("t", 0): 5}


def test_broker_metadata_is_a_properties_file() -> None:
    text = b"version : 0\n broker.id 3\ncluster.id=a\\\n  b\\u0063\n"
    assert decode_broker_metadata(text, "x") == BrokerMetadata(0, "abc", 3, None)
    for wrong in (b"version=0\nbroker.id=1_0", b"version=0\ncluster.id=\\u00"):
        with pytest.raises(StorageError, match=r"^x: "):
            decode_broker_metadata(wrong, "x")


@given(entries=st.dictionaries(st.integers(0, 2**31 - 1), st.integers(0, 2**62), max_size=5))
def test_epochs_give_back_what_they_took(entries: dict[int, int]) -> None:
    starts = sorted(set(entries.values()))
    kept = list(zip(sorted(entries)[: len(starts)], starts, strict=False))
    assert decode_epochs(encode_epochs(kept)) == kept


def test_broker_metadata_of_both_modes() -> None:
    recorded = (
        b"#\n#Sat Nov 21 02:46:09 UTC 2026\nbroker.id=0\nversion=0\ncluster.id=KoHq7HYARhaPOiwFzr3M6w\n"
    )
    zookeeper = BrokerMetadata(0, "KoHq7HYARhaPOiwFzr3M6w", 0, None)
    assert decode_broker_metadata(recorded, "x") == zookeeper
    kraft = BrokerMetadata(1, "KoHq7HYARhaPOiwFzr3M6w", 4, "mPCqSKpnQ0-m42NLNxs2iQ")
    for metadata in (zookeeper, kraft, BrokerMetadata(0, None, None, None)):
        assert decode_broker_metadata(encode_broker_metadata(metadata), "x") == metadata
    assert kraft.is_kraft
    assert not zookeeper.is_kraft
    escaped = b"version : 0\nbroker.id=3\ncluster.id=abc\\=\\=\n! a remark\n"
    assert decode_broker_metadata(escaped, "x") == BrokerMetadata(0, "abc==", 3, None)


@pytest.mark.parametrize("text", [b"", b"version=2\n", b"version=x\n", b"version=0\nbroker.id=one\n"])
def test_damaged_broker_metadata_is_refused(text: bytes) -> None:
    with pytest.raises(StorageError, match=r"/data/meta\.properties"):
        decode_broker_metadata(text, "/data/meta.properties")


def test_topic_ids_are_kept(tmp_path: Path, files: FaultyFiles) -> None:
    assert read_topic_id(files, tmp_path) is None
    write_topic_id(files, tmp_path, bytes(range(16)))
    text = (tmp_path / "partition.metadata").read_bytes()
    assert text == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    assert read_topic_id(files, tmp_path) == bytes(range(16))
    for damaged in (b"version: 1\ntopic_id: AAECAwQFBgcICQoLDA0ODw", b"version: 0\ntopic_id: short"):
        (tmp_path / "partition.metadata").write_bytes(damaged)
        with pytest.raises(StorageError):
            read_topic_id(files, tmp_path)


@pytest.mark.parametrize(
    ("name", "meaning"),
    [
        ("orders-0", (TopicPartition("orders", 0), DirectoryKind.LIVE)),
        ("a-b.c_d-12", (TopicPartition("a-b.c_d", 12), DirectoryKind.LIVE)),
        ("a.b-3", (TopicPartition("a.b", 3), DirectoryKind.LIVE)),
        (
            "orders-0.0123456789abcdef0123456789abcdef-delete",
            (TopicPartition("orders", 0), DirectoryKind.DELETED),
        ),
        (
            "orders-0.0123456789abcdef0123456789abcdef-future",
            (TopicPartition("orders", 0), DirectoryKind.FUTURE),
        ),
        (
            "orders-0.0123456789abcdef0123456789abcdef-stray",
            (TopicPartition("orders", 0), DirectoryKind.STRAY),
        ),
        ("a.b-3.c-4", (TopicPartition("a.b-3.c", 4), DirectoryKind.LIVE)),
        ("orders", None),
        ("-1", None),
        ("orders-", None),
        ("orders-x", None),
        ("x-99999999999", None),
        ("lost+found", None),
        ("..-0", None),
        ("remote-log-index-cache", None),
    ],
)
def test_directory_names(name: str, meaning: object) -> None:
    if name == "..-0":
        assert parse_directory_name(name) is None
    else:
        assert parse_directory_name(name) == meaning


def test_the_mark_is_gone_once_it_is_read(tmp_path: Path) -> None:
    directory = LogDirectory(tmp_path / "data")
    assert directory.take_clean_shutdown_mark() is None
    directory.write_clean_shutdown_mark(25)
    path = directory.path / ".kafka_cleanshutdown"
    assert path.read_bytes() == b'{"version":0,"brokerEpoch":25}'
    mark = directory.take_clean_shutdown_mark()
    assert mark is not None
    assert mark.broker_epoch == 25
    assert not path.exists()
    assert directory.take_clean_shutdown_mark() is None


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"junk", json.dumps({"brokerEpoch": None}).encode()])
def test_a_mark_without_an_epoch_is_still_a_mark(tmp_path: Path, content: bytes) -> None:
    directory = LogDirectory(tmp_path)
    (tmp_path / ".kafka_cleanshutdown").write_bytes(content)
    mark = directory.take_clean_shutdown_mark()
    assert mark is not None
    assert mark.broker_epoch == -1


def test_each_process_opens_the_logs_that_it_owns(tmp_path: Path) -> None:
    directory = LogDirectory(tmp_path)
    environment = LogEnvironment()
    for partition in range(4):
        log = create_log(
            directory.path_of(TopicPartition("t", partition)),
            TopicPartition("t", partition),
            SMALL,
            environment,
            topic_id=None,
        )
        append(log, b"a", b"b")
        if partition == 3:
            log.raise_log_start_offset(1)
            assert log_start_offset_to_keep(log) == 1
            directory.write_log_start_offsets({log.topic_partition: 1})
        else:
            assert log_start_offset_to_keep(log) is None
        log.close()
    directory.write_high_watermarks({TopicPartition("t", partition): 2 for partition in range(4)})
    (tmp_path / f"t-9.{'0' * 32}-delete").mkdir()
    (tmp_path / "somebody's").mkdir()
    opened = directory.open_logs(
        lambda tp: tp.partition % 2 == 1, lambda _: SMALL, LogEnvironment(), had_clean_shutdown=True
    )
    logs = {log.topic_partition.partition: log for log in opened}
    assert set(logs) == {1, 3}
    assert everything(logs[1]) == [(0, b"a"), (1, b"b")]
    assert everything(logs[3]) == [(1, b"b")]
    assert all(log.high_watermark == 2 for log in logs.values())


def test_replicas_on_their_way_are_opened_too(tmp_path: Path) -> None:
    directory = LogDirectory(tmp_path)
    key = TopicPartition("t", 0)
    future = create_log(
        directory.new_future_path_of(key), key, SMALL, LogEnvironment(), topic_id=bytes(range(16))
    )
    append(future, b"a", b"b")
    future.close()
    directory.write_high_watermarks({key: 1})
    directory.write_cleaner_offsets({key: 1})
    (found,) = directory.open_logs(lambda _: True, lambda _: SMALL, LogEnvironment(), had_clean_shutdown=True)
    assert found.is_future
    assert found.directory == future.directory
    assert (found.topic_partition, found.log_end_offset, found.high_watermark) == (key, 2, 1)
    assert (
        found.cleaner_checkpoint is None
    )  # that is what its current replica was cleaned to, in another directory
    found.close()


def test_damaged_checkpoints_do_not_keep_a_directory_from_starting(tmp_path: Path) -> None:
    directory = LogDirectory(tmp_path)
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (tmp_path / name).write_bytes(b"junk")
    assert directory.recovery_points() == directory.high_watermarks() == {}


def test_only_what_is_marked_for_deletion_is_removed(tmp_path: Path) -> None:
    directory = LogDirectory(tmp_path)
    log = create_log(
        directory.path_of(TopicPartition("t", 0)),
        TopicPartition("t", 0),
        SMALL,
        LogEnvironment(),
        topic_id=None,
    )
    append(log, b"a")
    with pytest.raises(StorageError):
        directory.remove_directory(directory.path_of(TopicPartition("t", 0)))
    renamed = log.rename_for_deletion()
    assert [found.kind for found in directory.partitions()] == [DirectoryKind.DELETED]
    directory.remove_directory(renamed)
    directory.remove_directory(renamed)
    assert directory.partitions() == []


def test_new_partitions_go_where_there_are_fewest(tmp_path: Path) -> None:
    full, empty = LogDirectory(tmp_path / "a"), LogDirectory(tmp_path / "b")
    (full.path / "t-0").mkdir()
    assert directory_with_fewest_partitions([full, empty]) is empty
    (empty.path / "t-1").mkdir()
    assert directory_with_fewest_partitions([full, empty]) is full
    # Neither files nor what is about to be deleted counts.
    (full.path / "t-2.0123456789abcdef0123456789abcdef-delete").mkdir()
    (full.path / "recovery-point-offset-checkpoint").touch()
    assert directory_with_fewest_partitions([full, empty]) is full
    # What is on its way there does, as in Kafka.
    (full.path / "t-3.0123456789abcdef0123456789abcdef-future").mkdir()
    (empty.path / "t-4").mkdir()
    (empty.path / "t-5").mkdir()
    assert directory_with_fewest_partitions([empty, full]) is full
    (full.path / "t-6").mkdir()
    (full.path / "t-7").mkdir()
    assert directory_with_fewest_partitions([full, empty]) is empty


def test_topic_configurations_override_the_brokers() -> None:
    defaults = LogConfig(segment_bytes=5000)
    config = LogConfig.from_topic_configs(
        {
            "retention.ms": "-1",
            "cleanup.policy": "compact, delete",
            "preallocate": "TRUE",
            "min.cleanable.dirty.ratio": "0.1",
            "not.a.log's.key": "x",
        },
        defaults,
    )
    assert (config.retention_ms, config.segment_bytes, config.preallocate) == (-1, 5000, True)
    assert config.cleanup_policy == ("compact", "delete")
    assert config.compacts
    assert config.deletes
    assert LogConfig.from_topic_configs({}, defaults) is defaults
    for key, text in [("segment.ms", "soon"), ("preallocate", "maybe")]:
        with pytest.raises(ConfigError, match=key):
            LogConfig.from_topic_configs({key: text}, defaults)
