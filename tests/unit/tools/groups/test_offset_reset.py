"""Durations, times and plans of --reset-offsets."""

import pytest

from pkafka.model import TopicPartition
from pkafka.tools.groups.offset_reset import (
    ResetError,
    parse_datetime,
    parse_duration_ms,
    read_plan,
    split_topics,
    write_plan,
)

DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("P1D", DAY_MS),
        ("PT1H2M3S", 3_723_000),
        ("P2DT3H4M", 2 * DAY_MS + 11_040_000),
        ("pt0.5s", 500),
        ("PT-6H3M", -21_420_000),
        ("-P1D", -DAY_MS),
        ("PT0S", 0),
    ],
)
def test_durations_are_read_as_java_reads_them(text: str, milliseconds: int) -> None:
    assert parse_duration_ms(text) == milliseconds


@pytest.mark.parametrize("text", ["", "P", "PT", "1D", "P1DT", "P1H", "PT1D", "P1Y", "PT1H1H"])
def test_what_java_takes_for_no_duration_is_none(text: str) -> None:
    with pytest.raises(ResetError, match="Text cannot be parsed to a Duration"):
        parse_duration_ms(text)


def test_times_are_in_utc_where_no_zone_is_named() -> None:
    assert parse_datetime("1970-01-02T00:00:00.000") == DAY_MS
    assert parse_datetime("1970-01-02T00:00:00.001Z") == DAY_MS + 1
    assert parse_datetime("1970-01-02T00:00:00.000+02:00") == DAY_MS - 7_200_000
    with pytest.raises(ResetError, match="does not contain a 'T'"):
        parse_datetime("1970-01-02")
    with pytest.raises(ResetError, match="Unparseable date"):
        parse_datetime("1970-13-02T00:00:00.000")


def test_a_plan_that_is_written_is_read_again() -> None:
    plans = {"g": {TopicPartition("t", 0): 3, TopicPartition("u", 1): 4}, "h": {TopicPartition("t", 0): 5}}
    assert read_plan("\n".join(write_plan(plans, with_group=True)), ["g", "h"]) == plans
    one = {"g": plans["g"]}
    assert read_plan("\n".join(write_plan(one, with_group=False)) + "\n\n", ["g"]) == one
    for wrong in ("t,0", "t,0,x", "t,x,0", "g,t,0,1,2"):
        with pytest.raises(ResetError, match="line 1 is not"):
            read_plan(wrong, ["g"])
    with pytest.raises(ResetError, match="line 1 is not"):
        read_plan("t,0,3", ["g", "h"])


def test_topics_name_partitions() -> None:
    assert split_topics(["t:0,2", "u"]) == ([TopicPartition("t", 0), TopicPartition("t", 2)], ["u"])
    for wrong, text in (
        ("t:x", "Invalid partition 'x'"),
        ("t:", "Invalid topic arg"),
        ("t:1:2", "Invalid topic arg"),
    ):
        with pytest.raises(ResetError, match=text):
            split_topics([wrong])
