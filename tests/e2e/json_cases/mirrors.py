"""What the commands print that copy a cluster, and that look at copies."""

from collections.abc import Iterable

from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.clients.consumer import ConsumerRecord
from pkafka.clients.producer import ProducerRecord
from tests.e2e.json_cases.case import At, Cases, Words
from tests.e2e.json_cases.groups import group_of

CASES = Cases()


class SecondFails:
    """Sends the first record of a topic to another, and cannot take the second."""

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def handle(self, record: ConsumerRecord) -> Iterable[ProducerRecord]:
        if record.offset:
            raise ValueError("one is enough")
        return [ProducerRecord(self._topic, record.value)]


@CASES.of("pk-mirror-maker")
def a_mirror_tells_what_it_has_copied(at: At) -> None:
    topic = at.topic(b"a", b"b")

    def words() -> Words:
        consumer, producer = at.tmp_path / "consumer", at.tmp_path / "producer"
        consumer.write_text(
            f"bootstrap.servers={at.broker.bootstrap}\ngroup.id={at.new()}\nauto.offset.reset=earliest\n"
        )
        producer.write_text(f"bootstrap.servers={at.broker.bootstrap}\n")
        configs = ["--consumer.config", str(consumer), "--producer.config", str(producer)]
        handler = f"{__name__}.{SecondFails.__name__}"
        return [
            *configs,
            *("--include", topic, "--message.handler", handler, "--message.handler.args", at.topic()),
        ]

    found = at.every_form(words, status=ExitStatus.FAILURE)
    assert (found["records"], found["raw_records"]) == (1, 0)
    at.error(*words()[:4], status=ExitStatus.USAGE)


def clusters(at: At, topic: str) -> Words:
    return ["--source", at.broker.bootstrap, "--target", at.broker.bootstrap, "--include", topic]


@CASES.of("pk-mirror.verify")
def copies_are_compared(at: At) -> None:
    topic = at.topic(b"a", b"b")
    words = ["verify", *clusters(at, topic)]
    assert at.every_form(words)["same"] == 2
    aliased = [*words, "--source-alias", "A"]
    (row,) = at.document(*aliased, status=ExitStatus.FAILURE)["partitions"]
    assert row["verdict"] == "missing"
    at.talk.create(f"A.{topic}")
    assert at.document(*aliased, status=ExitStatus.IN_PROGRESS)["behind"] == 2
    at.talk.send(f"A.{topic}", b"c")
    (row,) = at.document(*aliased, status=ExitStatus.FAILURE)["partitions"]
    assert row["difference"]["source_offset"] == 0
    at.error("verify", *clusters(at, at.new()))
    at.error("verify", status=ExitStatus.USAGE)


@CASES.of("pk-mirror.back-fill")
def history_is_copied(at: At) -> None:
    topic = at.topic(b"a", b"b")

    def words() -> Words:
        alias = at.new("A")
        aliases = ["--source-alias", alias, "--target-alias", "B"]
        return ["back-fill", *clusters(at, topic), *aliases, "--offsets-file", str(at.tmp_path / alias)]

    found = at.every_form(words)
    (row,) = found["partitions"]
    assert (found["records"], row["state"], row["source_offset"]) == (2, "copied", 1)
    line = words()
    assert at.document(*line, "--dry-run")["partitions"][0]["state"] == "planned"
    at.run(*line)
    at.error(*line)  # it has records already
    at.error("back-fill", *clusters(at, topic), status=ExitStatus.USAGE)


@CASES.of("pk-mirror.drill")
def a_loss_is_rehearsed(at: At) -> None:
    topic = at.topic(b"a", b"b")
    group = group_of(at, topic)
    words = ["drill", *clusters(at, topic), "--groups", group]
    found = at.every_form(words)
    assert (found["ready"], found["problems"]) == (True, [])
    assert found["positions"][0]["origin"] == "group"
    found = at.document(*words, "--source-alias", "A", status=ExitStatus.FAILURE)
    assert found["copies"][0]["lag"] is None
    at.error("drill", status=ExitStatus.USAGE)
