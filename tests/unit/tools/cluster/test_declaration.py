"""What is to be done so that topics and settings become what a file declares."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkafka.tools.cluster.declaration import (
    Action,
    Actual,
    ActualTopic,
    DeclarationError,
    KeyChange,
    Secret,
    document_of,
    parse,
    plan,
)

WANTED = parse(
    {
        "topics": {
            "new": {"partitions": 3, "configs": {"retention.ms": 5, "cleanup.policy": ["compact", "delete"]}},
            "grown": {"partitions": 4, "replication-factor": 1},
            "set": {"configs": {"retention.ms": 5, "preallocate": True, "segment.ms": None}},
            "same": {"partitions": 1, "configs": {"retention.ms": "5"}},
            "looked.at": None,
        },
        "brokers": {"default": {"log.cleaner.threads": 2}, "1": {}, 2: {"secret": "new"}},
    }
)
THERE = Actual(
    {
        "grown": ActualTopic(2, 1),
        "set": ActualTopic(1, 1, {"segment.ms": "9", "other": "x"}),
        "same": ActualTopic(1, 1, {"retention.ms": "5"}),
        "looked.at": ActualTopic(7, 3),
        "old": ActualTopic(2, 1),
        "__consumer_offsets": ActualTopic(50, 1, is_internal=True),
    },
    {"1": {"gone": "1"}, "2": {"secret": Secret()}},
)


def test_what_is_missing_is_made_and_what_differs_is_changed() -> None:
    assert [step.text for step in plan(WANTED, THERE)] == [
        "+ topic new: 3 partitions, replication factor by default, retention.ms=5, cleanup.policy=compact,delete",
        "~ topic grown: partitions 2 -> 4",
        "~ topic set: retention.ms (unset) -> 5, preallocate (unset) -> true, segment.ms 9 -> (unset)",
        "~ all brokers: log.cleaner.threads (unset) -> 2",
        "~ broker 2: secret (hidden) -> (hidden)",
    ]


def test_a_secret_is_not_shown_where_the_cluster_has_none_yet() -> None:
    key = "listener.name.internal.ssl.key.password"
    [step] = plan(parse({"brokers": {"default": {key: "hush"}}}), Actual({}))
    assert step.text == f"~ all brokers: {key} (unset) -> (hidden)"
    [change] = step.changes
    assert (change.is_secret, change.after) == (True, "hush")


def test_pruning_makes_a_declaration_the_whole_truth() -> None:
    added = [step for step in plan(WANTED, THERE, prune=True) if step not in plan(WANTED, THERE)]
    assert [step.text for step in added] == [
        "~ topic set: retention.ms (unset) -> 5, preallocate (unset) -> true, segment.ms 9 -> (unset), "
        "other x -> (unset)",
        "~ broker 1: gone 1 -> (unset)",
        "- topic old",
    ]
    assert added[-1].action is Action.DELETE


def test_what_cannot_be_done_is_said() -> None:
    wanted = parse({"topics": {"t": {"partitions": 1, "replication-factor": 3, "configs": {"a": 1}}}})
    steps = plan(wanted, Actual({"t": ActualTopic(2, 1)}))
    assert [step.action for step in steps] == [Action.IMPOSSIBLE, Action.IMPOSSIBLE, Action.CHANGE]
    assert steps[0].text == "! topic t: it has 2 partitions and cannot have 1: delete it and make it anew"
    assert steps[1].text == "! topic t: it has 1 replica and not 3: reassign its partitions"
    assert steps[2].changes == (KeyChange("a", None, "1"),)


@pytest.mark.parametrize(
    ("document", "text"),
    [
        (None, "the declaration: a mapping is needed, not nothing"),
        ([], "the declaration: a mapping is needed, not a list"),
        ({"topic": {}}, "the declaration: topic is not known; there are brokers, topics, version"),
        ({"version": 2}, "version 2 of declarations is not known; this is 1"),
        ({"topics": ["a"]}, "topics: a mapping is needed, not a list"),
        ({"topics": {True: {}}}, "topics: the name True needs quotation marks"),
        ({"topics": {"a": {"partition": 1}}}, "topics.a: partition is not known"),
        ({"topics": {"a": {"partitions": 0}}}, "topics.a.partitions: a number from 1 on is needed, not 0"),
        ({"topics": {"a": {"partitions": "3"}}}, "topics.a.partitions: a number from 1 on is needed, not 3"),
        ({"topics": {"a": {"replication-factor": True}}}, "topics.a.replication-factor: a number"),
        ({"topics": {"a": {"configs": {"k": {}}}}}, "topics.a.configs.k: a value is needed, not a mapping"),
        ({"brokers": {"one": {}}}, "brokers.one: a broker is named by its id, all of them by default"),
    ],
)
def test_what_is_no_declaration_is_refused_with_its_place(document: Any, text: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        parse(document)
    assert str(caught.value).startswith(text)


NAMES = st.text("abc.-_", min_size=1, max_size=4)
CONFIGS = st.dictionaries(NAMES, st.text(max_size=3), max_size=3)
ACTUAL = st.builds(
    Actual,
    st.dictionaries(
        NAMES,
        st.builds(ActualTopic, st.integers(1, 9), st.integers(1, 3), CONFIGS, st.booleans()),
        max_size=4,
    ),
    st.dictionaries(st.sampled_from(["default", "1", "2"]), CONFIGS, max_size=3),
)


@given(ACTUAL)
def test_what_is_exported_asks_for_nothing(actual: Actual) -> None:
    assert plan(parse(document_of(actual)), actual, prune=True) == []
