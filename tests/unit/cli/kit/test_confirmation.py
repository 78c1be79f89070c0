"""Questions and hints in this process, where a cluster would have to be broken for them."""

import io

import pytest

from pkafka.cli import leader_election, topics
from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.cli.kit.spelling import did_you_mean
from pkafka.protocol.api import ApiKey
from pkafka.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from pkafka.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from pkafka.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.fakes.broker import FakeBroker


class Terminal(io.StringIO):
    """Standard input where a person types."""

    def isatty(self) -> bool:
        return True


def _without_leaders(broker: FakeBroker) -> MetadataResponse:
    """One topic: a partition without a leader, and one with one."""
    partitions = [
        MetadataResponsePartition(
            partition_index=index, leader_id=leader, replica_nodes=[1, 2], isr_nodes=[2 - index]
        )
        for index, leader in enumerate((-1, 1))
    ]
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=broker.port)],
        controller_id=1,
        topics=[MetadataResponseTopic(name="t", topic_id=b"t" * 16, partitions=partitions)],
    )


@pytest.mark.parametrize(
    ("answer", "more", "is_asked", "elects"),
    [
        ("y\n", ["--all-topic-partitions"], True, True),
        ("n\n", ["--all-topic-partitions"], True, False),
        ("", ["--all-topic-partitions"], True, False),
        ("", ["--all-topic-partitions", "--yes"], False, True),
        ("", ["--topic", "t", "--partition", "0"], False, True),
        (None, ["--all-topic-partitions"], False, True),
    ],
    ids=["yes", "no", "end", "told not to", "named", "script"],
)
def test_records_are_given_up_everywhere_after_a_question(
    answer: str | None,
    more: list[str],
    is_asked: bool,
    elects: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    elected = ElectLeadersResponse(
        replica_election_results=[
            ReplicaElectionResult(topic="t", partition_result=[PartitionResult(partition_id=0)])
        ]
    )
    with FakeBroker() as broker:
        del broker.versions[ApiKey.DESCRIBE_CLUSTER]  # then metadata say it
        broker.handlers[ApiKey.METADATA] = lambda *_: _without_leaders(broker)
        broker.handlers[ApiKey.ELECT_LEADERS] = lambda *_: elected
        monkeypatch.setattr("sys.stdin", io.StringIO() if answer is None else Terminal(answer))
        monkeypatch.setattr("sys.stderr.isatty", lambda: True)
        args = ["--bootstrap-server", broker.bootstrap, "--election-type", "unclean", *more]
        assert leader_election.main.run(args) == (ExitStatus.OK if elects else ExitStatus.FAILURE)
        asked = [each for _, _, each in broker.requests if isinstance(each, ElectLeadersRequest)]
    assert len(asked) == int(elects)
    told = "No replica in sync is left of t-0: what only those had is lost for good\n"
    assert (told in capsys.readouterr().err) is is_asked


def test_a_preferred_election_everywhere_loses_nothing_and_asks_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeBroker() as broker:
        del broker.versions[ApiKey.DESCRIBE_CLUSTER]  # then metadata say it
        broker.handlers[ApiKey.METADATA] = lambda *_: _without_leaders(broker)
        broker.handlers[ApiKey.ELECT_LEADERS] = lambda *_: ElectLeadersResponse()
        monkeypatch.setattr("sys.stdin", Terminal(""))
        monkeypatch.setattr("sys.stderr.isatty", lambda: True)
        args = ["--election-type", "preferred", "--all-topic-partitions"]
        assert leader_election.main.run([*args, "--bootstrap-server", broker.bootstrap]) == ExitStatus.OK
    assert "(y/n)" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("word", "known", "hint"),
    [
        ("ordrs", ["orders", "payments"], "did you mean orders?"),
        ("orders", ["orders"], None),  # it is there, and something else is wrong
        ("x", ["orders"], None),
        ("orders", [], None),
    ],
)
def test_the_name_that_looks_most_like_it(word: str, known: list[str], hint: str | None) -> None:
    assert did_you_mean(word, known) == hint


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        (36, "--if-not-exists leaves it as it is"),
        (38, "pk-cluster list-endpoints shows the brokers"),
        (73, "brokers with delete.topic.enable=true delete topics"),
    ],
    ids=["exists", "replication factor", "deletion"],
)
def test_what_to_do_about_a_refusal(code: int, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    refused = CreatableTopicResult(name="n", error_code=code, error_message="No.")
    with FakeBroker() as broker:
        broker.handlers[ApiKey.CREATE_TOPICS] = lambda *_: CreateTopicsResponse(topics=[refused])
        args = ["--bootstrap-server", broker.bootstrap, "--create", "--topic", "n"]
        assert topics.main.run(args) == ExitStatus.FAILURE
    captured = capsys.readouterr()
    assert captured.err == f"pk-topics: No. ({hint})\n"
    assert captured.out == "Error while executing topic command : No.\n"
