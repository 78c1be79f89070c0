"""Starting and stopping: clean, at once, in the background; and the starts that are refused, each in one line."""

import fcntl
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from pkafka.errors import ErrorCode
from pkafka.server.broker import open_file_limit_problem
from pkafka.testing import Broker, BrokerStartError
from tests.faults.conftest import MakeBroker
from tests.faults.family import begun_to_stop, connect_to, family, is_alive
from tests.faults.load import LibrdkafkaWriter, Writer
from tests.faults.wire import Wire, eventually, produce_when_possible, read_all, values_of
from tests.raw_client import ClosedByBroker

CLEAN_MARK = ".kafka_cleanshutdown"
PID_FILE = "pkafka.pid"


def write(broker: Broker, *, partitions: int = 4) -> None:
    with Wire(broker.bootstrap) as wire:
        assert wire.create_topic("t", partitions) == ErrorCode.NONE
    for partition in range(partitions):
        produce_when_possible(broker.bootstrap, "t", partition, [b"one", b"two"])


def checkpoint(broker: Broker, name: str) -> dict[str, int]:
    lines = (broker.log_dir / f"{name}-offset-checkpoint").read_text().splitlines()
    assert lines[0] == "0"
    rows = [line.split() for line in lines[2:]]
    assert int(lines[1]) == len(rows)
    return {f"{topic}-{partition}": int(offset) for topic, partition, offset in rows}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_broker_cleanly(broker: Broker, number: signal.Signals) -> None:
    write(broker)
    assert (broker.log_dir / PID_FILE).read_text() == f"{broker.pid}\n"
    os.kill(broker.pid, number)
    assert broker.wait() == 0
    expected = {f"t-{partition}": 2 for partition in range(4)}
    assert checkpoint(broker, "recovery-point") == expected
    assert checkpoint(broker, "replication") == expected
    assert (broker.log_dir / CLEAN_MARK).exists()
    assert not (broker.log_dir / PID_FILE).exists()
    # An index that is not trimmed, or a damaged tail, would show in a start that recovers. This one believes the mark.
    torn = broker.log_dir / "t-0" / f"{0:020}.log"
    whole = torn.read_bytes()
    torn.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    broker.start()
    with Wire(broker.bootstrap) as wire:
        eventually(lambda: wire.offset("t", 0) == (ErrorCode.NONE, 2))
    torn.write_bytes(whole)
    for partition in range(4):
        assert values_of(read_all(broker.bootstrap, "t", partition)) == [b"one", b"two"]
    assert not (broker.log_dir / CLEAN_MARK).exists()


def test_ctrl_c_reaches_every_process_and_is_obeyed_once(make_broker: MakeBroker) -> None:
    broker = make_broker()
    broker.start()
    write(broker)
    for process in [psutil.Process(broker.pid), *family(broker).values()]:
        process.send_signal(signal.SIGINT)
    assert broker.wait() == 0
    assert (broker.log_dir / CLEAN_MARK).exists()


def test_a_second_signal_ends_it_at_once_and_the_next_start_recovers(make_broker: MakeBroker) -> None:
    # Not because a worker was silent for so long.
    broker = make_broker(**{"pkafka.heartbeat.timeout.ms": 120_000})
    broker.start()
    write(broker)
    supervisor = psutil.Process(broker.pid)
    family(broker)["worker-0"].suspend()  # so that a clean stop takes its time
    supervisor.send_signal(signal.SIGTERM)
    begun_to_stop(broker)
    assert is_alive(supervisor)
    began = time.monotonic()
    supervisor.send_signal(signal.SIGTERM)
    assert broker.wait() == 1
    assert time.monotonic() - began < broker.soon_s
    assert not (broker.log_dir / CLEAN_MARK).exists()
    broker.start()
    for partition in range(4):
        assert produce_when_possible(broker.bootstrap, "t", partition, [b"three"]) == 2


def test_a_stop_while_starting(make_broker: MakeBroker) -> None:
    broker = make_broker()
    broker.start()
    write(broker)
    broker.kill()
    for pause_s in (0.0, 0.1, 0.3):
        process = start_process(broker)
        eventually(lambda: psutil.Process(process.pid).children())  # noqa: B023
        time.sleep(pause_s)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) in (0, 1)
    broker.start()
    for partition in range(4):
        assert values_of(read_all(broker.bootstrap, "t", partition)) == [b"one", b"two"]


def start_process(broker: Broker, *more: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [
            *[sys.executable, "-m", "pkafka.cli.server_start", *more],
            *["--override", f"listeners=PLAINTEXT://127.0.0.1:{broker.port}"],
            *["--override", f"log.dirs={broker.log_dir}", "--override", "pkafka.workers=2"],
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def test_a_start_waits_for_the_children_of_a_killed_broker(broker: Broker) -> None:
    write(broker)
    # In the place of a child that takes its time to die: whoever holds what children inherit.
    broker.stop()
    held = os.open(broker.log_dir, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    began = time.monotonic()
    threading.Timer(1.0, lambda: os.close(held)).start()
    broker.start()
    assert time.monotonic() - began > 0.9


def test_the_children_hold_that_lock(broker: Broker) -> None:
    children = list(family(broker).values())
    os.kill(broker.pid, signal.SIGSTOP)
    probe = os.open(broker.log_dir, os.O_RDONLY)
    try:
        with pytest.raises(BlockingIOError):
            fcntl.flock(probe, fcntl.LOCK_EX | fcntl.LOCK_NB)
        broker.kill()
        eventually(lambda: not any(is_alive(child) for child in children))
        fcntl.flock(probe, fcntl.LOCK_EX)
    finally:
        os.close(probe)


def test_starting_again_and_again_right_after_kill_9(broker: Broker) -> None:
    write(broker)
    end = 2
    for _ in range(3):
        process = psutil.Process(broker.pid)
        process.kill()
        # Without waiting for the children, who hold the port and the logs.
        again = start_process(broker)
        try:
            # One whose answer was lost with the old children has been sent again.
            offset = produce_when_possible(broker.bootstrap, "t", 0, [b"x"])
            assert offset in (end, end + 1)
            end = offset + 1
        finally:
            again.kill()
            again.wait()
        broker.kill()
        broker.start()
        produce_when_possible(broker.bootstrap, "t", 1, [b"x"])


def refused(broker: Broker) -> str:
    """The one line that a refused start says."""
    size = broker.log_file.stat().st_size if broker.log_file.exists() else 0
    with pytest.raises(BrokerStartError, match="exit code 1"):
        broker.start()
    (line,) = broker.log_file.read_text()[size:].splitlines()
    return line


def test_two_brokers_on_one_directory(broker: Broker, make_broker: MakeBroker) -> None:
    second = make_broker("second", **{"log.dirs": broker.log_dir})
    assert "is using the data directory" in refused(second)
    write(broker)


def test_a_busy_port(make_broker: MakeBroker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        broker = make_broker(**{"listeners": f"PLAINTEXT://127.0.0.1:{port}"})
        assert f"--override listeners=PLAINTEXT://127.0.0.1:{port + 1}" in refused(broker)


def test_a_child_that_cannot_boot_stops_the_broker_in_one_line(broker: Broker) -> None:
    write(broker)
    broker.stop()
    meta = broker.log_dir / "meta.properties"
    meta.write_text(meta.read_text().replace("broker.id=0", "broker.id=7"))
    other = Broker(broker.directory, {"log.dirs": broker.log_dir, "broker.id": 3})
    said = broker.log_file.stat().st_size
    with pytest.raises(BrokerStartError, match="exit code 1"):
        other.start()
    lines = broker.log_file.read_text()[said:].splitlines()
    assert len([line for line in lines if "CRITICAL" in line]) == 1
    assert "broker.id is 3, but the log directories belong to broker 7" in "\n".join(lines)
    assert "Traceback" not in "\n".join(lines)
    assert len(lines) <= 3


def test_in_the_background(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    done = subprocess.run(
        [
            *[sys.executable, "-m", "pkafka.cli.server_start", "-daemon", "--ready-file", str(ready)],
            *[
                "--override",
                "listeners=PLAINTEXT://127.0.0.1:0",
                "--override",
                f"log.dirs={tmp_path / 'data'}",
            ],
        ],
        env={**os.environ, "LOG_DIR": str(tmp_path / "logs")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    eventually(ready.exists)
    supervisor = psutil.Process(int((tmp_path / "data" / PID_FILE).read_text()))
    try:
        with Wire(ready.read_text().strip()) as wire:
            assert wire.create_topic("t", 1) == ErrorCode.NONE
        assert supervisor.terminal() is None
        # The first screen may still be on its way into the file when the broker is ready.
        eventually(lambda: "is ready on" in (tmp_path / "logs" / "kafkaServer.out").read_text())
    finally:
        supervisor.send_signal(signal.SIGTERM)
        eventually(lambda: not is_alive(supervisor))
    assert (tmp_path / "data" / CLEAN_MARK).exists()


def test_the_limit_of_open_files_is_raised_to_what_is_allowed(broker: Broker) -> None:
    for process in [psutil.Process(broker.pid), *family(broker).values()]:
        soft, hard = process.rlimit(psutil.RLIMIT_NOFILE)
        assert soft == hard


@pytest.mark.parametrize(
    ("limit", "partitions", "workers", "fine"),
    [
        (4096, 0, 2, True),
        (1000, 0, 1, True),
        (999, 0, 1, False),
        (4096, 2000, 2, True),
        (4096, 4000, 2, False),
        (resource.RLIM_INFINITY, 10**6, 1, True),
    ],
)
def test_a_limit_of_open_files_that_is_too_low_is_told(
    limit: int, partitions: int, workers: int, fine: bool
) -> None:
    problem = open_file_limit_problem(limit, partitions, workers)
    assert (problem is None) == fine
    assert fine or f"{limit} files" in str(problem)


def test_the_limit_of_open_files_is_looked_at_when_a_broker_starts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = [f"listeners=PLAINTEXT://127.0.0.1:{taken.getsockname()[1]}", f"log.dirs={tmp_path}"]
        overrides = " ".join(f"--override {setting}" for setting in settings)
        command = f"ulimit -n 300; exec {sys.executable} -m pkafka.cli.server_start {overrides}"
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert "A process may open 300 files; with 0 partitions" in done.stderr
    assert "is in use" in done.stderr  # which ended the start


def test_a_stop_under_load_is_clean_and_loses_nothing(broker: Broker) -> None:
    with Wire(broker.bootstrap) as wire:
        for topic in ("one", "several"):
            assert wire.create_topic(topic, 2) == ErrorCode.NONE
    writers: list[Writer | LibrdkafkaWriter] = [
        *(Writer(broker.bootstrap, "one", partition, acks=-1) for partition in range(2)),
        LibrdkafkaWriter(broker.bootstrap, "several", 2),
    ]
    for _ in range(3):
        time.sleep(0.5)
        assert broker.stop() == 0
        assert (broker.log_dir / CLEAN_MARK).exists()
        broker.start()
    for writer in writers:
        writer.stop()
    for writer in writers:
        writer.check()
    said = broker.log_file.read_text()
    assert [line for line in said.splitlines() if " ERROR " in line or " CRITICAL " in line] == []


def test_a_stop_answers_the_requests_in_hand(make_broker: MakeBroker) -> None:
    for attempt in range(5):
        broker = make_broker(f"broker-{attempt}")
        broker.start()
        try:
            stop_amid_requests(broker)
        except ClosedByBroker:
            # Workers have a second for it, which a busy machine may have taken for itself.
            assert "Stopping with requests in hand" in broker.log_file.read_text()
            continue
        assert broker.wait() == 0
        broker.start()
        for partition in range(2):
            assert values_of(read_all(broker.bootstrap, "t", partition)) == [b"one", b"two", b"three"]
        return
    raise AssertionError("each time the second was over before")


def stop_amid_requests(broker: Broker) -> None:
    """Stop a broker that has a request for both of its workers in hand, and two that nothing comes for."""
    write(broker, partitions=2)
    with Wire(broker.bootstrap) as wire:
        assert wire.create_topic("idle", 2) == ErrorCode.NONE
        for partition in range(2):
            eventually(lambda: wire.offset("idle", partition) == (ErrorCode.NONE, 0))  # noqa: B023
    other = family(broker)["worker-1"]
    with (
        connect_to(broker, "worker-0") as one,
        connect_to(broker, "worker-1") as two,
        connect_to(broker, "worker-0") as producer,
    ):
        # Of both workers at each of them, so that neither connection moves.
        for wire in (one, two):
            wire.poll("idle", [0, 1], 0, max_wait_ms=3_600_000)
        other.suspend()
        producer.produce_to_each("t", [0, 1], b"three")
        os.kill(broker.pid, signal.SIGTERM)
        begun_to_stop(broker)
        other.resume()
        assert producer.produced() == {0: (ErrorCode.NONE, 2), 1: (ErrorCode.NONE, 2)}
        for wire in (one, two):
            assert wire.polled() == {0: (ErrorCode.NONE, []), 1: (ErrorCode.NONE, [])}
            assert wire.is_closed(within_s=60)


def test_a_stop_waits_for_no_answer_that_does_not_come(broker: Broker) -> None:
    write(broker, partitions=2)
    victim = family(broker)["worker-1"]
    with connect_to(broker, "worker-0") as producer:
        victim.suspend()
        producer.produce_to_each("t", [0, 1], b"three")
        os.kill(broker.pid, signal.SIGTERM)
        with pytest.raises(ConnectionError):  # not a time-out
            producer.produced()
        victim.kill()
    assert broker.wait() == 1


def test_many_logs_are_open_before_anybody_leads_them(make_broker: MakeBroker) -> None:
    broker = make_broker()
    broker.start()
    write(broker, partitions=200)
    broker.kill()
    broker.start()
    with Wire(broker.bootstrap) as wire:
        for partition in range(200):
            eventually(lambda: wire.offset("t", partition) == (ErrorCode.NONE, 2))  # noqa: B023
    for worker in family(broker).values():
        logs = [file.path for file in worker.open_files() if file.path.startswith(f"{broker.log_dir}/t-")]
        assert len(logs) == len(set(logs))
