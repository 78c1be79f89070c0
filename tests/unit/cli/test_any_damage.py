"""pk-dump-log and pk-verify-log on files of every kind with any damage: rows, findings or a line, never a traceback."""

import shutil
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pkafka.cli import dump_log, verify_log
from pkafka.cli.kit.kafka_command import KafkaCommand
from pkafka.storage import checkpoints
from pkafka.storage.broker_metadata import META_PROPERTIES_FILE
from tests.any_input import LONG_S, objections
from tests.in_process import run
from tests.log_files import (
    metadata_records,
    remote_log_records,
    segment_of_records,
    transaction_records,
    write_rich_files,
)
from tests.odd_values import damaged
from tests.unit.storage.makers import NOW, World, append, end_transaction

_END_S: Final = 60.0
_CHECKPOINTS: Final = (
    checkpoints.RECOVERY_POINT_FILE,
    checkpoints.LOG_START_OFFSET_FILE,
    checkpoints.HIGH_WATERMARK_FILE,
    checkpoints.CLEANER_FILE,
)
_DECODERS: Final = (
    *(
        "--offsets-decoder",
        "--transaction-log-decoder",
        "--cluster-metadata-decoder",
        "--remote-log-metadata-decoder",
    ),
    *(
        "--value-decoder-class=kafka.serializer.LongDecoder",
        "--key-decoder-class=kafka.serializer.StringDecoder",
    ),
)
_HOW_TO_DUMP: Final = st.lists(
    st.sampled_from(
        [
            *_DECODERS,
            *("--print-data-log", "--deep-iteration", "--skip-record-metadata", "--verify-index-only"),
            *(
                "--index-sanity-check",
                "--print-headers",
                "--skip-damage",
                "--stats",
                "--verify",
                "--max-bytes=90",
            ),
            *("--payload=json", "--payload=hex", "--output=json", "--output=jsonl", "--output=csv"),
            *("--offset-range=1:40", "--time-range=1000:2000"),
        ]
    ),
    max_size=4,
    unique_by=lambda flag: flag.partition("=")[0],
)
_HOW_TO_VERIFY: Final = st.lists(
    st.sampled_from(["--deep-iteration", "--compacted", "--output=json", "--output=csv"]),
    max_size=3,
    unique_by=str,
)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with files of all kinds, without damage."""
    data = tmp_path_factory.mktemp("sound")
    for name in _CHECKPOINTS:
        (data / name).write_text("0\n2\norders 0 5\nrich 0 40\n")
    (data / META_PROPERTIES_FILE).write_text("cluster.id=AAAAAAAAAAAAAAAAAAAAAA\nversion=0\nbroker.id=0\n")
    rich = data / "rich-0"
    rich.mkdir()
    write_rich_files(rich)
    for number, records in enumerate((transaction_records(), metadata_records(), remote_log_records())):
        internal = data / f"internal-{number}"
        internal.mkdir()
        (internal / f"{0:020}.log").write_bytes(segment_of_records(records))
    world = World(data)
    log = world.create()
    for sequence in range(3):
        append(log, b"in it", pid=9, epoch=0, sequence=sequence, transactional=True)
        append(log, b"between", timestamp=NOW + sequence)
        end_transaction(log, 9, 0, committed=sequence == 0)
    for number in range(8):
        append(
            log, b"some value", b"another one", timestamp=NOW + 100 + number * 10, leader_epoch=number // 3
        )
        append(log, b"x" * 30, timestamp=NOW + 100 + number * 10, pid=7, epoch=1, sequence=number)
    log.close()
    return data


@pytest.mark.timeout(LONG_S)
@pytest.mark.parametrize(
    ("command", "how"),
    [(dump_log.main, _HOW_TO_DUMP), (verify_log.main, _HOW_TO_VERIFY)],
    ids=["pk-dump-log", "pk-verify-log"],
)
def test_no_damage_ends_a_command_in_a_traceback(
    command: KafkaCommand, how: st.SearchStrategy[list[str]], sound: Path, tmp_path: Path
) -> None:
    names = sorted(str(each.relative_to(sound)) for each in sound.rglob("*") if each.is_file())

    @given(st.data())
    @settings(suppress_health_check=list(HealthCheck))
    def check(data: st.DataObject) -> None:
        folder = tmp_path / "folder"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(sound, folder)
        for name in data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True)):
            file = folder / name
            content = file.read_bytes()
            for _ in range(data.draw(st.integers(1, 3))):
                content = data.draw(st.one_of(damaged(content), damaged(content), st.binary(max_size=100)))
            file.write_bytes(content)
        only = data.draw(st.sampled_from([str(folder), str(file), str(file.parent)]))
        words = ["--files", only, *data.draw(how)]
        outcome = run(command.main, words, folder=folder, seconds=_END_S)
        found = objections(words, outcome, is_endless=False)
        if found:
            said = f"{outcome.out[-2_000:]!r}\n{outcome.err}"
            raise AssertionError(f"{command.name} {words}: {found}\n{said}") from outcome.error

    check()
