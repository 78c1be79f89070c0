"""Which quota applies to a client, and with whom it shares the rate."""

import pytest

from pkafka.server.limits.quota_rules import ANY, Measured, Quota, QuotaRules, entity_names

LEVELS = [
    (("u",), ("c",)),
    (("u",), (ANY,)),
    (("u",), ()),
    ((ANY,), ("c",)),
    ((ANY,), (ANY,)),
    ((ANY,), ()),
    ((), ("c",)),
    ((), (ANY,)),
]
"""From the most specific entity to the least."""
SHARED_WITH = [
    Measured("u", "c"),
    Measured("u", "c"),
    Measured("u", ""),
    Measured("u", "c"),
    Measured("u", "c"),
    Measured("u", ""),
    Measured("", "c"),
    Measured("", "c"),
]


@pytest.mark.parametrize("level", range(8))
def test_the_most_specific_entity_decides(level: int) -> None:
    rules = QuotaRules()
    for number in range(level, 8):
        rules.change(LEVELS[number], 100.0 + number)
    assert rules.of("u", "c") == Quota(SHARED_WITH[level], 100.0 + level)


@pytest.mark.parametrize("level", range(8))
def test_one_quota_alone_applies_to_whom_it_names(level: int) -> None:
    rules = QuotaRules()
    rules.change(LEVELS[level], 1.0)
    assert rules.of("u", "c") == Quota(SHARED_WITH[level], 1.0)
    users, client_ids = LEVELS[level]
    of_other_user = rules.of("v", "c")
    assert (of_other_user is None) == (users == ("u",))
    of_other_client = rules.of("u", "d")
    assert (of_other_client is None) == (client_ids == ("c",))


def test_without_quotas_nothing_applies() -> None:
    rules = QuotaRules()
    assert (bool(rules), rules.of("u", "c")) == (False, None)
    rules.change(LEVELS[2], 1.0)
    rules.change(LEVELS[2], None)
    assert (bool(rules), rules.of("u", "c")) == (False, None)
    rules.change(LEVELS[7], None)


def test_a_kind_that_was_once_set_keeps_its_rates() -> None:
    # As in Kafka: with client ids alone there would be a rate for each; a user that once had a quota changes that.
    rules = QuotaRules()
    rules.change(((), (ANY,)), 5.0)
    assert rules.of("u", "c") == Quota(Measured("", "c"), 5.0)
    rules.change((("u",), ("c",)), 7.0)
    rules.change((("u",), ("c",)), None)
    assert rules.of("u", "c") == Quota(Measured("", "c"), 5.0)
    alone = QuotaRules()
    alone.change((("u",), ()), 3.0)
    assert alone.of("v", "c") is None
    alone.change(((ANY,), ()), 4.0)
    assert alone.of("v", "c") == Quota(Measured("v", ""), 4.0)
    assert alone.of("u", "c") == Quota(Measured("u", ""), 3.0)


def test_names_are_read_from_where_settings_are_stored() -> None:
    assert entity_names("users", "a%3Db") == (("a=b",), ())
    assert entity_names("users", "<default>") == ((ANY,), ())
    assert entity_names("users", "<default>/clients/c%2F1") == ((ANY,), ("c/1",))
    assert entity_names("users", "a/clients/<default>") == (("a",), (ANY,))
    assert entity_names("clients", "c") == ((), ("c",))
    assert entity_names("clients", "<default>") == ((), (ANY,))
