"""Numbers on command lines are read as Kafka's tools read them: by Java."""

import click
import pytest

from pkafka.cli import cluster, consumer_groups, dev, producer_perf_test, topics
from pkafka.cli.get_offsets import parse_time
from pkafka.cli.kit.options import parse_duration_ms
from pkafka.cli.kit.topic_filter import partition_filter, topic_pattern
from pkafka.cli.topics.changes import parse_replica_assignment
from pkafka.model import TopicPartition

NO_INTEGERS = ["1_0", " 5", "5 ", "2147483648", "0x5", "5.0", "\u00b2", "\U0001d7d9"]


def value(command: click.Command, flag: str, text: str) -> object:
    context = command.make_context("pk", [flag, text], resilient_parsing=False)
    return context.params[flag.removeprefix("--").replace("-", "_")]


@pytest.mark.parametrize(("text", "number"), [("5", 5), ("+5", 5), ("-5", -5), ("007", 7), ("\u0663", 3)])
def test_whole_numbers(text: str, number: int) -> None:
    assert value(topics.main, "--partitions", text) == number
    assert value(consumer_groups.main, "--shift-by", text) == number


@pytest.mark.parametrize("text", NO_INTEGERS)
def test_what_java_takes_for_no_number_is_none(text: str) -> None:
    with pytest.raises(click.UsageError, match=r"Cannot parse argument '.*' of option partitions"):
        value(topics.main, "--partitions", text)


def test_longs_are_longer() -> None:
    assert value(consumer_groups.main, "--to-offset", "9223372036854775807") == 2**63 - 1
    with pytest.raises(click.UsageError, match="of option to-offset"):
        value(consumer_groups.main, "--to-offset", "9223372036854775808")


def test_numbers_with_a_point() -> None:
    flags = ["--topic", "t", "--num-records", "1", "--throughput"]
    context = producer_perf_test.main.make_context("pk", [*flags, "1.5f"])
    assert context.params["throughput"] == 1.5
    for text in ("1_0", "inf", "x"):
        with pytest.raises(click.UsageError, match="of option throughput"):
            producer_perf_test.main.make_context("pk", [*flags, text])


def test_verbs_read_them_alike() -> None:
    for group, verb, flags in (
        (cluster.main, "cluster-id", ["--brokers", "1_0"]),
        (dev.main, "up", ["--workers", "1_0"]),
    ):
        with pytest.raises(click.UsageError, match="1_0"):
            group.commands[verb].make_context(verb, flags)


def test_lists_of_numbers() -> None:
    assert parse_replica_assignment("0:1, +1 :2,") == [(0, 1), (1, 2)]
    for text in ("0:1_0", "0:99999999999", "x", "0:\xa01"):
        with pytest.raises(Exception, match="For input string"):
            parse_replica_assignment(text)


def test_times() -> None:
    assert parse_duration_ms("+5s") == 5_000
    assert parse_time("-2") == parse_time("earliest") == -2
    for text in ("1_0s", "-5", "5 s", "\u00b2", "s"):
        with pytest.raises(click.UsageError):
            parse_duration_ms(text)
    with pytest.raises(click.UsageError):
        parse_time("1_0")


def test_topics_by_java_regular_expressions() -> None:
    assert topic_pattern(" 'a[b-d&&[^c]] , \\p{Upper}+' ").fullmatch("ad")
    matches = partition_filter("a.*:1-3,b:0,,")
    assert [each for each in range(5) if matches(TopicPartition("ab", each))] == [1, 2]
    assert not matches(TopicPartition("c", 0))
    with pytest.raises(click.UsageError, match="is an invalid regex"):
        topic_pattern("a{")
    with pytest.raises(click.UsageError, match="Invalid rule"):
        partition_filter("a:99999999999")
