"""pk-dump-log and pk-verify-log as processes: memory that does not grow with what they read, terminals, pipes."""

import contextlib
import os
import pty
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from pkafka.records.builder import build_batch
from pkafka.records.compression import Codec
from tests.log_files import name_of

pytestmark = pytest.mark.timeout(300)

RSS_KB_MAX = 60_000


def peak_kb(*args: object) -> int:
    """The most memory that the command ever had, its output going nowhere."""
    program = (
        "import sys; from pkafka.cli.dump_log import main; code = main.run(sys.argv[1:]); "
        "(peak,) = [line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')]; "
        "print(code, peak, file=sys.stderr)"
    )
    command = [sys.executable, "-c", program, *map(str, args)]
    done = subprocess.run(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=240, check=True
    )
    code, peak = done.stderr.splitlines()[-1].split()
    assert code == "0", done.stderr
    return int(peak)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a log of 10 GB, nearly all of it holes: batches of 16 MB whose values are zeros."""
    directory = tmp_path_factory.mktemp("data") / "large-0"
    directory.mkdir()
    offset = 0
    batch = build_batch([(1, None, bytes(16_000_000), ())])
    head = bytes(batch[:100])
    for _ in range(10):
        path = directory / name_of(offset)
        with path.open("wb") as file:
            for number in range(64):
                file.seek(number * len(batch))
                file.write(struct.pack(">q", offset) + head[8:])
                offset += 1
            file.truncate(64 * len(batch))
        path.with_suffix(".index").write_bytes(
            b"".join(struct.pack(">ii", number, number * len(batch)) for number in range(1, 64))
        )
    return directory


@pytest.mark.parametrize(
    "flag",
    [
        pytest.param("--max-message-size=1", marks=pytest.mark.nightly),
        pytest.param("--verify", marks=pytest.mark.nightly),
    ],
)
def test_memory_stays_the_same_on_ten_gigabytes(large: Path, flag: str) -> None:
    assert sum(path.stat().st_size for path in large.iterdir()) > 10_000_000_000
    peak = peak_kb("--files", large, flag)
    assert peak < RSS_KB_MAX


@pytest.mark.nightly
def test_memory_stays_the_same_for_large_values(tmp_path: Path) -> None:
    path = tmp_path / name_of(0)
    with path.open("wb") as file:
        for number in range(30):
            values = [(1, None, bytes(1_000_000), ())] * 10
            file.write(build_batch(values, base_offset=number * 10, codec=Codec.ZSTD))
    for flags in ((), ("--payload", "hex"), ("--output", "json")):
        assert peak_kb("--files", path, "--print-data-log", *flags) < 5 * RSS_KB_MAX


def test_memory_stays_the_same_for_many_records(tmp_path: Path) -> None:
    path = tmp_path / name_of(0)
    values = [(1, b"key", b"v" * 90, ())] * 1_000
    with path.open("wb") as file:
        for number in range(300):
            file.write(build_batch(values, base_offset=number * 1_000))
    assert peak_kb("--files", path, "--print-data-log") < RSS_KB_MAX
    assert peak_kb("--files", path, "--stats") < RSS_KB_MAX


@pytest.mark.parametrize("flag", ["--print-data-log", "--verify"])
def test_progress_is_shown_on_a_terminal_and_nowhere_else(tmp_path: Path, flag: str) -> None:
    (tmp_path / name_of(0)).write_bytes(build_batch([(1, None, b"v", ())]))
    program = "from pkafka.cli.dump_log import main; main()"
    command = [sys.executable, "-c", program, "--files", str(tmp_path), flag]
    plain = subprocess.run(command, capture_output=True, timeout=60, check=True)
    assert plain.stderr == b""
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        shown = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=theirs,
            timeout=60,
            check=True,
            env={**os.environ, "TERM": "xterm"},
        )
        os.close(theirs)
        told = b""
        with contextlib.suppress(OSError):  # the end of a terminal that nobody has any more
            while chunk := terminal.read(4096):
                told += chunk
    assert shown.stdout == plain.stdout
    assert b"bytes" in told or b"kB" in told


def test_a_reader_that_leaves_is_no_error(tmp_path: Path) -> None:
    (tmp_path / name_of(0)).write_bytes(build_batch([(1, None, b"v" * 90, ())] * 50_000))
    program = f"{sys.executable} -c 'from pkafka.cli.dump_log import main; main()'"
    done = subprocess.run(
        f"set -o pipefail; {program} --files {tmp_path} --print-data-log | head -3",
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout.count(b"\n"), done.stderr) == (0, 3, b"")
