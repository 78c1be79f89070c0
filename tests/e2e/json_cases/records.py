"""What commands print of records, and of how fast these are written and read."""

import io
import json
import sys

import pytest

from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.records.builder import build_batch
from tests.e2e.json_cases.case import At, Cases
from tests.json_schemas import check

CASES = Cases()


def rich_topic(at: At) -> str:
    """A topic whose records have everything that a record can have; their times are long ago."""
    topic = at.topic(retention_ms=-1)
    headers = (("h", b"1"), ("h", b"2"), ("binary", b"\xff"), ("none", None), ("", b""))
    records = [(5_000, b"k", b"v", headers), (6_000, None, b"\xfe\x00", ()), (7_000, b"", None, ())]
    at.talk.produce(topic, bytes(build_batch(records)))
    return topic


@CASES.of("pk-console-consumer")
def records_are_consumed(at: At) -> None:
    words = ["--topic", rich_topic(at), "--from-beginning", "--until-end"]
    assert len(at.document(*words)["records"]) == len(at.rows(*words)) == 3
    assert at.document(*words, "--filter", "key=nothing") == {"records": []}
    at.error("--topic", "no/topic", "--from-beginning")


@CASES.of("pk-console-producer.input")
def what_the_consumer_writes_is_read(at: At) -> None:
    words = ["--topic", rich_topic(at), "--from-beginning", "--until-end", "--output", "jsonl"]
    lines = [json.loads(each) for each in at.run(*words, command="pk-console-consumer").splitlines()]
    lines += [{}, {"value": None}, {"value": {"base64": "AA=="}, "headers": None, "comment": "more"}]
    for line in lines:
        check(line, at.name)
    topic = at.topic(retention_ms=-1)
    source = io.TextIOWrapper(io.BytesIO("".join(f"{json.dumps(each)}\n" for each in lines).encode()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", source)
        at.run("--topic", topic, "--input", "jsonl", command="pk-console-producer")
    assert len(at.talk.read(topic)) == len(lines)


@CASES.of("pk-producer-perf-test")
def a_producer_is_measured(at: At) -> None:
    words = ["--topic", at.topic(max_message_bytes=500), "--throughput", "-1"]
    found = at.every_form([*words, "--num-records", "10", "--record-size", "10"])
    assert found["runs"][0]["records"] == 10
    at.document(*words, "--num-records", "0", "--record-size", "10")
    found = at.document(*words, "--num-records", "1", "--record-size", "1000", status=ExitStatus.FAILURE)
    assert (found["runs"][0]["failed"], found["runs"][0]["latency_mean_ms"]) == (1, None)


@CASES.of("pk-consumer-perf-test")
def a_consumer_is_measured(at: At) -> None:
    topic = at.topic(b"a", b"b")
    # Kafka's ten seconds are few for whoever joins a group on a busy machine.
    patient = ["--topic", topic, "--messages", "2", "--timeout", "60000"]
    at.every_form(patient)
    at.document(*patient, "--group", at.new())
    at.document("--topic", topic, "--messages", "3", "--timeout", "300", status=ExitStatus.FAILURE)
    at.error("--topic", at.new(), "--messages", "1")


@CASES.of("pk-e2e-latency")
def latency_is_measured(at: At) -> None:
    at.every_form(["--topic", at.topic(), "--num-records", "3", "--record-size", "10"])


@CASES.of("pk-perf-test.run")
def a_load_test_reports(at: At) -> None:
    words = ["run", "--num-records", "200", "--interval", "0.2"]
    at.every_form([*words, "--header", "a=b", "--warmup", "0.1"])
    at.document(*words, "--consumers", "0", "--rate", "1000")
    at.document("run", "--topic", at.topic(b"a"), "--producers", "0", "--num-records", "1")


@CASES.of("pk-perf-test.compare")
def reports_are_compared(at: At) -> None:
    report = at.tmp_path / "report.json"
    at.run("run", "--num-records", "100", "--interval", "0.2", "--report", str(report))
    check(json.loads(report.read_text()), "pk-perf-test.run")
    assert at.every_form(["compare", str(report), str(report)])["regression"] is False
    worse = json.loads(report.read_text())
    worse["results"][0]["records_per_s"] /= 2
    found = at.document("compare", str(report), at.file(worse), status=ExitStatus.FAILURE)
    assert found["regression"] is True
    at.error("compare", str(report), at.file({}))
