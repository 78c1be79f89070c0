"""Rules as values: their names, and filters that choose among them."""

import pytest

from pkafka.security.acl import (
    ANY_ACL,
    Acl,
    AclFilter,
    Entry,
    EntryFilter,
    Operation,
    Pattern,
    PatternFilter,
    PatternType,
    Permission,
    ResourceType,
)

TOPIC = ResourceType.TOPIC
LITERAL, PREFIXED, ANY, MATCH = (
    PatternType.LITERAL,
    PatternType.PREFIXED,
    PatternType.ANY,
    PatternType.MATCH,
)
READ = Entry("User:alice", "*", Operation.READ, Permission.ALLOW)


def test_names_are_those_of_znodes() -> None:
    assert [one.title for one in (ResourceType.TRANSACTIONAL_ID, Operation.DESCRIBE_CONFIGS)] == [
        "TransactionalId",
        "DescribeConfigs",
    ]
    assert Permission.DENY.title == "Deny"


@pytest.mark.parametrize(
    ("wanted", "pattern", "is_chosen"),
    [
        (PatternFilter(), Pattern(TOPIC, "a"), True),
        (PatternFilter(ResourceType.GROUP), Pattern(TOPIC, "a"), False),
        (PatternFilter(TOPIC, "a", LITERAL), Pattern(TOPIC, "a"), True),
        (PatternFilter(TOPIC, "a", LITERAL), Pattern(TOPIC, "a", PREFIXED), False),
        (PatternFilter(TOPIC, "a", PREFIXED), Pattern(TOPIC, "a", PREFIXED), True),
        (PatternFilter(TOPIC, "ab", PREFIXED), Pattern(TOPIC, "a", PREFIXED), False),
        (PatternFilter(TOPIC, "a", ANY), Pattern(TOPIC, "a", PREFIXED), True),
        (PatternFilter(TOPIC, "a", ANY), Pattern(TOPIC, "*"), False),
        (PatternFilter(TOPIC, "ab", MATCH), Pattern(TOPIC, "a", PREFIXED), True),
        (PatternFilter(TOPIC, "ab", MATCH), Pattern(TOPIC, "a"), False),
        (PatternFilter(TOPIC, "ab", MATCH), Pattern(TOPIC, "*"), True),
        (PatternFilter(TOPIC, "b", MATCH), Pattern(TOPIC, "a", PREFIXED), False),
        (PatternFilter(TOPIC, None, LITERAL), Pattern(TOPIC, "a"), True),
        (PatternFilter(TOPIC, None, LITERAL), Pattern(TOPIC, "a", PREFIXED), False),
        (PatternFilter(TOPIC, None, MATCH), Pattern(TOPIC, "a", PREFIXED), True),
    ],
)
def test_which_patterns_a_filter_chooses(wanted: PatternFilter, pattern: Pattern, is_chosen: bool) -> None:
    assert wanted.matches(pattern) is is_chosen
    assert AclFilter(wanted).matches(Acl(pattern, READ)) is is_chosen


@pytest.mark.parametrize(
    ("wanted", "is_chosen"),
    [
        (EntryFilter(), True),
        (EntryFilter("User:alice", "*", Operation.READ, Permission.ALLOW), True),
        (EntryFilter("User:bob"), False),
        (EntryFilter(host="10.0.0.1"), False),
        (EntryFilter(operation=Operation.ALL), False),
        (EntryFilter(permission=Permission.DENY), False),
    ],
)
def test_which_entries_a_filter_chooses(wanted: EntryFilter, is_chosen: bool) -> None:
    assert wanted.matches(READ) is is_chosen


def test_the_patterns_that_a_filter_names() -> None:
    assert PatternFilter(TOPIC, "a", LITERAL).named() == (Pattern(TOPIC, "a"),)
    assert PatternFilter(TOPIC, "a", ANY).named() == (Pattern(TOPIC, "a"), Pattern(TOPIC, "a", PREFIXED))
    for looks_at_all in (PatternFilter(TOPIC, "a", MATCH), PatternFilter(TOPIC), ANY_ACL.pattern):
        assert looks_at_all.named() == ()
