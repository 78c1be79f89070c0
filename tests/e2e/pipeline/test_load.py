"""pk-perf-test with Spark: the same load, the same report, from tasks that are killed, stopped and never started."""

import json
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from pkafka.cli import perf_test
from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.clients.admin import Admin
from pkafka.pipeline.load.spark_load import SparkLoad
from pkafka.pipeline.session import SparkJobError
from pkafka.testing import Broker
from pkafka.tools.load.perf_test import run as load_test
from pkafka.tools.load.perf_test.plan import Plan, PlanError
from pkafka.tools.load.perf_test.report import build
from pkafka.tools.load.perf_test.run import Clients, Outcome, Progress
from tests.json_schemas import check
from tests.perf_reports import remarks_of
from tests.spark import END_S, THREADS, of_program
from tests.talk import Talk

GENERATORS = THREADS

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def load(spark: SparkSession) -> SparkLoad:
    return SparkLoad(spark)


@pytest.fixture
def topic(talk: Talk) -> str:
    topic = f"load-{uuid.uuid4().hex[:8]}"
    talk.create(topic, partitions=2)
    return topic


class Test:
    """A load test on a session that others use too, and what was told while it ran."""

    __test__ = False

    def __init__(self, load: SparkLoad, bootstrap: str) -> None:
        self.seen: list[Progress] = []
        self.is_interrupted = False
        self._load = load
        self._bootstrap = bootstrap

    def run(self, plan: Plan, **properties: object) -> Outcome:
        plan.check()
        servers = {"bootstrap.servers": self._bootstrap}
        self.clients = Clients({**servers, **properties}, servers)
        with Admin(servers) as admin:
            return load_test.run(
                plan,
                self.clients,
                admin,
                on_progress=self.note,
                is_interrupted=lambda: self.is_interrupted,
                fleet_for=self._load.fleet,
            )

    def report(self, outcome: Outcome) -> dict[str, Any]:
        report = build(outcome, self.clients, master=self._load.master)
        check(json.loads(json.dumps(report)), "pk-perf-test.run")
        return report

    def note(self, progress: Progress) -> None:
        self.seen.append(progress)


@pytest.fixture
def test(load: SparkLoad, pkafka_broker: Broker) -> Test:
    return Test(load, pkafka_broker.bootstrap)


def test_every_record_is_sent_and_read_once_and_every_executor_has_a_row(
    test: Test, topic: str, talk: Talk
) -> None:
    plan = Plan(topic, producers=2, records=10_001, key="sequential", record_size="uniform:50:150")
    report = test.report(test.run(plan))
    produced, consumed = report["results"]
    assert produced["records"] == consumed["records"] == 10_001
    assert (report["status"], report["missing"], remarks_of(report)) == ("complete", 0, [])
    found = [record for partition in range(2) for record in talk.read(topic, partition)]
    assert sorted(int(record.key or b"") for record in found) == list(range(10_001))
    rows = {(row["side"], row["number"]): row for row in report["generators"]}
    assert [rows["produce", number]["records"] for number in range(2)] == [5_001, 5_000]
    assert rows["consume", 0]["records"] == 10_001
    assert len({row["pid"] for row in report["generators"]}) == GENERATORS, "each in a process of its own"
    assert all(row["size_bytes"] > 0 and row["cpu_us_per_record"] > 0 for row in report["generators"])


def test_a_rate_is_kept_from_the_common_start_on(test: Test, topic: str) -> None:
    plan = Plan(topic, producers=2, rate=500, duration_s=1, warmup_s=0.4, interval_s=0.2)
    began = time.monotonic()
    outcome = test.run(plan)
    elapsed_ms = (time.monotonic() - began) * 1000
    report = test.report(outcome)
    for side in report["results"]:
        assert side["records"] + side["warm_up_records"] == 700
        assert 0 < side["percentiles_ms"]["50"] <= side["percentiles_ms"]["99"] < elapsed_ms
    assert report["end_to_end_clock"] == "value, in microseconds"
    assert [row["records"] + row["warm_up_records"] for row in report["generators"]] == [350, 350, 700]
    assert min(row["at_s"] for row in report["series"]) >= -0.4
    assert [progress.number for progress in test.seen] == list(range(-2, 5)), "told while it runs"
    for side, part in ((outcome.produced, part) for part in outcome.produced.parts.values()):
        assert part.measured.latency.total <= side.measured.latency.total


def test_files_of_the_driver_are_where_the_executors_look(
    test: Test, topic: str, tmp_path: Path, talk: Talk
) -> None:
    lines = tmp_path / "lines"
    lines.write_text("red\ngreen\n")
    test.run(Plan(topic, records=50, payload_file=str(lines)))
    found = [record for partition in range(2) for record in talk.read(topic, partition)]
    assert (len(found), {record.value for record in found}) == (50, {b"red", b"green"})


def test_an_executor_that_dies_ends_the_test_with_the_reason(
    test: Test, topic: str, pkafka_broker: Broker
) -> None:
    port = int(pkafka_broker.bootstrap.rpartition(":")[2])

    def is_generator(process: psutil.Process) -> bool:
        try:
            addresses = [each.raddr for each in process.net_connections()]
        except psutil.Error:  # it ended meanwhile
            return False
        return process.name() != "java" and any(each and each.port == port for each in addresses)

    def kill(progress: Progress) -> None:
        if not test.seen and progress.produced.records:
            workers = list(filter(is_generator, psutil.Process().children(recursive=True)))
            assert len(workers) == GENERATORS
            workers[0].kill()
            test.seen.append(progress)

    test.note = kill  # type: ignore[method-assign]
    outcome = test.run(Plan(topic, producers=2, rate=2000, duration_s=60, interval_s=0.2))
    assert outcome.status == "failed"
    assert outcome.error is not None
    assert "worker" in outcome.error.lower()
    assert "\n" not in outcome.error
    assert test.report(outcome)["results"][0]["records"] > 0
    again = test.run(Plan(topic, records=100))
    assert again.status == "complete", "Spark goes on without it"


def test_an_interrupted_test_has_a_report(test: Test, topic: str) -> None:
    def interrupt(progress: Progress) -> None:
        test.is_interrupted |= progress.produced.records > 0

    test.note = interrupt  # type: ignore[method-assign]
    outcome = test.run(Plan(topic, rate=200, duration_s=60, interval_s=0.2))
    assert outcome.status == "interrupted"
    assert test.report(outcome)["results"][0]["records"] > 0


def test_records_that_fail_are_what_is_wrong(test: Test, topic: str) -> None:
    outcome = test.run(Plan(topic, rate=100, records=10, record_size="1000"), **{"max.request.size": 500})
    assert outcome.status == "failed"
    assert outcome.produced.everything.failed > 0
    assert "500" in (test.report(outcome)["error"] or "")


def test_more_generators_than_threads_are_refused(load: SparkLoad) -> None:
    with pytest.raises(PlanError, match=r"local\[3\] runs 3 tasks at a time, and this test has 4"):
        load.check(Plan("t", producers=3, duration_s=1))


def test_tables_are_appended_to_and_refused_before_the_test(
    load: SparkLoad, test: Test, topic: str, tmp_path: Path
) -> None:
    report = test.report(test.run(Plan(topic, records=100)))
    where = str(tmp_path / "kept")
    load.prepare_tables(where)
    for _ in range(2):
        load.write_tables(report, where)
    assert pq.read_table(f"{where}/results").column("records").to_pylist() == [100] * 4
    assert set(pq.read_table(f"{where}/generators").column("topic").to_pylist()) == {topic}
    (tmp_path / "file").write_text("")
    with pytest.raises(SparkJobError, match="cannot be written") as caught:
        load.prepare_tables(str(tmp_path / "file" / "below"))
    assert "\n" not in str(caught.value)


@pytest.mark.nightly  # starts Spark in a program of its own
def test_the_command_prints_the_report_and_nothing_else(
    pkafka_broker: Broker, topic: str, tmp_path: Path
) -> None:
    words = [sys.executable, "-m", "pkafka.cli.perf_test", "--bootstrap-server", pkafka_broker.bootstrap]
    words += ["--topic", topic, "--num-records", "2000", "--interval", "0.2", "--output", "json"]
    words += ["--spark", "--master", "local[2]", "--parquet", str(tmp_path / "kept")]
    files = tmp_path / "files"
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=END_S, check=False, env=of_program(files)
    )
    assert done.returncode == ExitStatus.OK, done.stderr
    report = json.loads(done.stdout)
    check(report, "pk-perf-test.run")
    assert [row["records"] for row in report["results"]] == [2000, 2000]
    assert report["configuration"]["master"] == "local[2]"
    assert all("sent/s" in line for line in done.stderr.splitlines()), done.stderr
    assert pq.read_table(tmp_path / "kept" / "series").num_rows == len(report["series"])
    assert list(files.iterdir()) == []


@pytest.mark.parametrize(("option", "value"), [("--master", "local[2]"), ("--parquet", "/tmp/x")])
def test_what_is_asked_of_spark_needs_it(option: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "--bootstrap-server", "127.0.0.1:9092", option, value]
    assert perf_test.main.run(words) == ExitStatus.USAGE
    assert f"{option} needs --spark" in capsys.readouterr().err
