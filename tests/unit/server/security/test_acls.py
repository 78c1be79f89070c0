"""What rules allow. That random rules decide as Apache Kafka's is shown in tests/interop/test_acls.py."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkafka.security.acl import (
    ANY_ACL,
    SUPPORTED_OPERATIONS,
    Acl,
    Entry,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)
from pkafka.security.principal import Principal
from pkafka.server.security.acls import Acls

ALICE, BOB = Principal("User", "alice"), Principal("User", "bob")
HOST = "10.0.0.1"
TOPIC = ResourceType.TOPIC
READ, WRITE, DESCRIBE, ALL = Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALL
ALLOW, DENY = Permission.ALLOW, Permission.DENY


def rule(
    name: str,
    operation: Operation = READ,
    permission: Permission = ALLOW,
    *,
    prefixed: bool = False,
    principal: str = "User:alice",
    host: str = "*",
) -> Acl:
    kind = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    return Acl(Pattern(TOPIC, name, kind), Entry(principal, host, operation, permission))


def acls(*rules: Acl, super_users: tuple[Principal, ...] = (), allows_unruled: bool = False) -> Acls:
    made = Acls(super_users, allows_unruled=allows_unruled)
    for one in rules:
        made.put(one.pattern, (*made.of(one.pattern), one.entry))
    return made


@pytest.mark.parametrize(
    ("rules", "is_allowed"),
    [
        ([], False),
        ([rule("orders")], True),
        ([rule("*")], True),
        ([rule("ord", prefixed=True)], True),
        ([rule("orders", prefixed=True)], True),
        ([rule("orders-", prefixed=True)], False),
        ([rule("ord")], False),
        ([rule("orders", ALL)], True),
        ([rule("orders", WRITE)], False),
        ([rule("orders", principal="User:*")], True),
        ([rule("orders", principal="User:bob")], False),
        ([rule("orders", principal="Group:alice")], False),
        ([rule("orders", host=HOST)], True),
        ([rule("orders", host="10.0.0.2")], False),
        ([rule("orders"), rule("orders", permission=DENY)], False),
        ([rule("orders"), rule("o", permission=DENY, prefixed=True)], False),
        ([rule("orders"), rule("*", ALL, DENY)], False),
        ([rule("orders"), rule("orders", WRITE, DENY)], True),
        ([rule("orders"), rule("orders", permission=DENY, host="10.0.0.2")], True),
        ([rule("orders"), rule("orders", permission=DENY, principal="User:*")], False),
        # None of several prefixes hides another one (KAFKA-14265).
        ([rule("o", prefixed=True), rule("ord", prefixed=True, principal="User:bob")], True),
        ([rule("o", DESCRIBE, DENY, prefixed=True), rule("orders")], True),
    ],
)
def test_who_may_read(rules: list[Acl], is_allowed: bool) -> None:
    found = acls(*rules).verdict(ALICE, HOST, READ, TOPIC, "orders")
    assert found.is_allowed is is_allowed
    if found.because is not None:
        assert found.because in rules
        assert (found.because.entry.permission is ALLOW) is is_allowed


@pytest.mark.parametrize("operation", SUPPORTED_OPERATIONS[TOPIC])
def test_what_lets_describe(operation: Operation) -> None:
    lets = {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER, DESCRIBE}
    made = acls(rule("orders", operation))
    assert made.may(ALICE, HOST, DESCRIBE, TOPIC, "orders") is (operation in lets)
    lets = {Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS}
    assert made.may(ALICE, HOST, Operation.DESCRIBE_CONFIGS, TOPIC, "orders") is (operation in lets)
    # A denial implies nothing.
    made = acls(rule("orders", ALL), rule("orders", operation, DENY))
    assert made.may(ALICE, HOST, DESCRIBE, TOPIC, "orders") is (operation is not DESCRIBE)


def test_super_users_and_resources_without_rules() -> None:
    made = acls(rule("orders", permission=DENY, principal="User:*"), super_users=(BOB,), allows_unruled=True)
    assert made.may(BOB, HOST, READ, TOPIC, "orders")
    assert not made.may(ALICE, HOST, READ, TOPIC, "orders")
    assert made.may(ALICE, HOST, READ, TOPIC, "others")
    # A rule about anything that the resource falls under is a rule about it.
    made.put(Pattern(TOPIC, "oth", PatternType.PREFIXED), [rule("", WRITE).entry])
    assert not made.may(ALICE, HOST, READ, TOPIC, "others")
    made.put(Pattern(TOPIC, "oth", PatternType.PREFIXED), [])
    assert made.may(ALICE, HOST, READ, TOPIC, "others")


def test_rules_are_counted_chosen_and_replaced() -> None:
    made = acls(rule("a"), rule("a", WRITE), rule("b", prefixed=True))
    assert (len(made), set(made.chosen(ANY_ACL))) == (
        3,
        {rule("a"), rule("a", WRITE), rule("b", prefixed=True)},
    )
    assert not made.put(Pattern(TOPIC, "a"), [rule("a", WRITE).entry, rule("a").entry, rule("a").entry])
    made.replace({Pattern(TOPIC, "c"): [rule("c").entry]})
    assert list(made) == [rule("c")]
    assert not made.may(ALICE, HOST, READ, TOPIC, "bb")


NAMES = st.sampled_from(["a", "ab", "abc", "b", "ba", "*"])
RULES = st.lists(
    st.builds(
        rule,
        NAMES,
        st.sampled_from([READ, WRITE, ALL]),
        st.sampled_from([ALLOW, DENY]),
        prefixed=st.booleans(),
        principal=st.sampled_from(["User:alice", "User:*", "User:bob"]),
        host=st.sampled_from(["*", HOST, "10.0.0.2"]),
    ),
    max_size=8,
)


@given(RULES, st.booleans())
def test_some_topic_may_be_written_to_where_one_of_all_may(rules: list[Acl], allows_unruled: bool) -> None:
    """The quick answer for any resource is that of all names that rules can tell apart.

    It may say no where a literal name is open, in the corners where Kafka's does: a name beside denied prefixes.
    """
    made = acls(*rules, allows_unruled=allows_unruled)
    names = ["a", "ab", "abc", "abcd", "b", "ba", "bac", "x", *(f"{name}z" for name in ("a", "ab", "b"))]
    is_open = any(made.may(ALICE, HOST, WRITE, TOPIC, name) for name in names)
    if is_open and not allows_unruled:
        assert made.may_any(ALICE, HOST, WRITE, TOPIC)


@given(RULES, RULES)
def test_changes_leave_what_a_fresh_set_has(first: list[Acl], second: list[Acl]) -> None:
    changed = acls(*first)
    rules: dict[Pattern, list[Entry]] = {}
    for pattern, entry in second:
        rules.setdefault(pattern, []).append(entry)
    changed.replace(rules)
    fresh = acls(*second)
    assert set(changed) == set(fresh)
    for name in ("a", "ab", "abc", "b", "x"):
        for operation in (READ, WRITE):
            assert changed.may(ALICE, HOST, operation, TOPIC, name) == fresh.may(
                ALICE, HOST, operation, TOPIC, name
            )
    assert changed.may_any(ALICE, HOST, WRITE, TOPIC) == fresh.may_any(ALICE, HOST, WRITE, TOPIC)
