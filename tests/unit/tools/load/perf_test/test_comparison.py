"""Two reports: what is worse is a regression, what is not judged is not."""

from dataclasses import replace

import pytest

from pkafka.tools.load.perf_test.comparison import Comparison, ReportError, check, compare
from pkafka.tools.load.perf_test.plan import Plan
from tests.unit.tools.load.perf_test.reports import report

PLAN = Plan("t", duration_s=2, warmup_s=1)


def verdicts(found: Comparison) -> dict[str, str]:
    return {row.figure: row.verdict for row in found.rows}


def test_the_same_is_the_same() -> None:
    found = compare(report(), report(), threshold=0.0)
    assert set(verdicts(found).values()) == {"same", "shown"}
    assert not found.is_regression
    assert found.remarks == []


def test_fewer_records_and_longer_times_are_worse() -> None:
    found = compare(report(), report(records=900, latency_us=2500), threshold=0.05)
    seen = verdicts(found)
    assert seen["produce records/sec"] == seen["consume MB/sec"] == "worse"
    assert seen["end-to-end latency 99%, ms"] == "worse"
    assert seen["end-to-end latency 99.9%, ms"] == "shown"
    assert found.is_regression
    (row,) = (row for row in found.rows if row.figure == "produce records/sec")
    assert (row.before, row.after, row.change_percent) == (1000, 900, -10)


def test_a_change_within_the_threshold_is_none() -> None:
    assert not compare(report(), report(records=900), threshold=0.10).is_regression
    assert compare(report(), report(records=900), threshold=0.09).is_regression
    better = compare(report(records=900), report(), threshold=0.05)
    assert verdicts(better)["produce records/sec"] == "better"
    assert not better.is_regression


def test_failures_where_there_were_none_are_worse() -> None:
    found = compare(report(), report(failed=1), threshold=0.5)
    assert verdicts(found)["failed records"] == "worse"
    assert verdicts(compare(report(failed=1), report(), threshold=0.5))["failed records"] == "better"


def test_what_was_not_the_same_is_said() -> None:
    before, after = report(), report(replace(PLAN, rate=50.0, topic="other"))
    after["configuration"]["producer"]["acks"] = "1"
    after["configuration"]["producer"]["bootstrap.servers"] = "elsewhere:9092"
    after["host"]["cores"] = 1000
    after["status"] = "interrupted"
    cores = before["host"]["cores"]
    assert compare(before, after, threshold=0.05).remarks == [
        "not the same: producer acks: all, 1",
        "not the same: rate: none, 50.0",
        f"not the same: host cores: {cores}, 1000",
        "the second test is interrupted, not complete",
    ]


def test_only_what_both_have_is_compared() -> None:
    producing, consuming = report(replace(PLAN, consumers=0)), report(replace(PLAN, producers=0))
    assert {row.figure.split()[0] for row in compare(producing, report(), threshold=0.1).rows} == {
        *("produce", "failed")
    }
    with pytest.raises(ReportError, match="no side"):
        compare(producing, consuming, threshold=0.1)


def test_transactions_are_compared_where_both_have_them() -> None:
    before, after, without = (report(replace(PLAN, transaction_records=each)) for each in (5, 5, None))
    for made, rate, times in ((before, 10.0, {"50": 1.0, "90": 3.0}), (after, 8.0, {"50": 1.0, "90": 4.0})):
        made["transactions"] |= {"committed_per_s": rate, "commit_percentiles_ms": times}
    found = compare(before, after, threshold=0.1)
    assert [(row.figure, row.verdict) for row in found.rows[-3:]] == [
        ("transactions/sec", "worse"),
        ("commit 50%, ms", "same"),
        ("commit 90%, ms", "shown"),
    ]
    assert not [row for row in compare(before, without, threshold=0.1).rows if "commit" in row.figure]
    with pytest.raises(ReportError, match="transactions"):
        check({**before, "transactions": {"committed_per_s": "many"}}, where="here")
    del without["transactions"]  # as older ones
    check(without, where="here")


@pytest.mark.parametrize(
    "document", [None, [], {}, {"tool": "other"}, {"tool": "pk-perf-test", "format": 99}]
)
def test_other_documents_are_refused(document: object) -> None:
    with pytest.raises(ReportError, match=r"^here: "):
        check(document, where="here")


def test_a_report_is_not() -> None:
    assert check(report(), where="here")["format"] == 1
