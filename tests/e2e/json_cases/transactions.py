"""What pk-transactions prints of open transactions, and of those that hang."""

import time

from pkafka.cli.kit.exit_status import ExitStatus
from tests.e2e.json_cases.case import At, Cases
from tests.open_transactions import begin, ends, hang, transactional_producer
from tests.talk import wait_for

CASES = Cases()


def _verb(at: At) -> str:
    return at.name.partition(".")[2]


@CASES.of("pk-transactions.list", "pk-transactions.describe", "pk-transactions.describe-producers")
def transactions_are_described(at: At) -> None:
    topic, transactional_id = at.topic(partitions=2), at.new()
    with transactional_producer(at.broker.bootstrap, transactional_id) as writer:
        flags = {
            "list": [],
            "describe": ["--transactional-id", transactional_id],
            "describe-producers": ["--topic", topic, "--partition", "0"],
        }[_verb(at)]
        at.document("OUTPUT", _verb(at), *flags)
        begin(writer, topic, 0, 1)
        found = at.every_form(["OUTPUT", _verb(at), *flags])
        writer.abort_transaction()
    (rows,) = found.values()
    if _verb(at) == "describe-producers":
        assert rows[0]["transaction_start_offset"] == 0
        at.error("OUTPUT", _verb(at), "--topic", at.new(), "--partition", "0")
        return
    (row,) = (each for each in rows if each["transactional_id"] == transactional_id)
    assert row["state"] == "Ongoing"
    if _verb(at) == "describe":
        assert row["partitions"] == [{"topic": topic, "partition": each} for each in range(2)]
        at.error("OUTPUT", _verb(at), "--transactional-id", at.new())
    else:
        at.error("OUTPUT", _verb(at), "--duration-filter", "soon", status=ExitStatus.USAGE)


@CASES.of("pk-transactions.abort")
def transactions_are_aborted(at: At) -> None:
    topic, transactional_id = at.topic(partitions=2), at.new()
    by_id = ["OUTPUT", "abort", "--transactional-id", transactional_id]
    with transactional_producer(at.broker.bootstrap, transactional_id) as writer:
        at.error(*by_id)
        begin(writer, topic, 0, 1)
        assert at.every_form([*by_id, "--dry-run"])["dry_run"] is True
        here = ["OUTPUT", "abort", "--topic", topic, "--partition", "1", "--start-offset", "0"]
        (row,) = at.every_form([*here, "--dry-run"])["transactions"]
        assert row["transactional_id"] == transactional_id
        assert len(at.document(*by_id)["transactions"]) == 2
    wait_for(lambda: ends(at.talk.admin, topic, 1) == (2, 2), what="the marker")
    at.error(*here)


@CASES.of("pk-transactions.find-hanging", "pk-transactions.holders", "pk-transactions.unstick")
def transactions_that_hang_are_found_and_ended(at: At) -> None:
    topic = at.topic(retention_ms=-1)
    where = [topic] if _verb(at) == "unstick" else ["--topic", topic]
    assert (
        at.document("OUTPUT", _verb(at), *where)["transactions" if "find" in at.name else "partitions"] == []
    )
    producer_id, _ = at.talk.new_producer()
    hang(at.talk, topic, producer_id=producer_id, written_ms=int(time.time() * 1_000) - 3_600_000)
    found = at.every_form(["OUTPUT", _verb(at), *where, *(["--dry-run"] if _verb(at) == "unstick" else [])])
    (row,) = next(each for each in found.values() if isinstance(each, list))
    assert (row["topic"], row["producer_id"]) == (topic, producer_id)
    if _verb(at) == "unstick":
        (row,) = at.document("OUTPUT", _verb(at), *where)["partitions"]
        assert (row["remedy"], row["error"]) == ("marker", None)
        wait_for(lambda: ends(at.talk.admin, topic) == (2, 2), what="the marker")
    missing = [at.new()] if _verb(at) == "unstick" else ["--topic", at.new()]
    at.error("OUTPUT", _verb(at), *missing)
