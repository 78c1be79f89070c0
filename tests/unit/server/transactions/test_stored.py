"""Transactional ids at rest: they are found like all others, and their records are decoded when they are asked for."""

import pytest

from pkafka.server.transactions.hosted import Entry
from pkafka.server.transactions.records import encode_key, encode_value
from pkafka.server.transactions.states import TransactionState
from pkafka.server.transactions.stored import StoredIds, not_at_rest
from pkafka.server.transactions.transaction import Facts, Transaction

IDLE = (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
LONG = "x" * 0x7FFF


def facts(state: TransactionState = TransactionState.EMPTY, update_ms: int = 77) -> Facts:
    return Facts(state, 4, 2, 60_000, (), -1, update_ms)


def is_at_rest(key: bytes, value: bytes) -> bool:
    found = not_at_rest([(key, value)])
    assert found in ([], [key])
    return not found


def stored(*names: str, update_ms: int = 77) -> tuple[StoredIds, list[str]]:
    """Ids at rest, and the names of those that were made so far."""
    made: list[str] = []

    def restored(name: str, found: Facts) -> Entry:
        made.append(name)
        return Entry(name, 3, 1, Transaction(found))

    values = {encode_key(name): encode_value(facts(update_ms=update_ms)) for name in names}
    assert not not_at_rest(list(values.items()))
    return StoredIds(values, restored), made


@pytest.mark.parametrize(
    "state", [state for state in TransactionState if state <= TransactionState.COMPLETE_ABORT]
)
def test_ids_without_a_transaction_are_at_rest(state: TransactionState) -> None:
    assert is_at_rest(encode_key("x"), encode_value(facts(state))) is (state in IDLE)
    with_partitions = facts(state)._replace(partitions=(("t", 0),))
    if state is not TransactionState.EMPTY:  # its record has no partitions
        assert not is_at_rest(encode_key("x"), encode_value(with_partitions))


def test_what_cannot_be_told_without_decoding_is_not_at_rest() -> None:
    key, value = encode_key("x"), encode_value(facts())
    assert is_at_rest(key, value)
    assert is_at_rest(encode_key("y" * 300), value)
    for other in (b"\0\1" + key[2:], key + b"y", key[:-1], b"", encode_key("ü")):
        assert not is_at_rest(other, value)
    for other in (b"\0\1" + value[2:], value + b"\0", value[:-1], b""):
        assert not is_at_rest(key, other)


def test_an_id_is_made_once_and_stays() -> None:
    ids, made = stored("a", "b", LONG)
    ids.coordinator_epoch = 9
    assert (len(ids), list(ids.values()), made) == (3, [], [])
    found = ids.get("a")
    assert found is not None
    assert (found.transactional_id, found.transaction.facts, found.coordinator_epoch) == ("a", facts(), 9)
    assert ids.get("a") is found
    assert ids.get(LONG) is not None
    assert (made, len(ids), [one.transactional_id for one in ids.values()]) == (["a", LONG], 3, ["a", LONG])
    for unknown in ("c", "", "ü", LONG + "x"):
        assert ids.get(unknown) is None


def test_ids_come_and_go() -> None:
    ids, _made = stored("a")
    ids["new"] = Entry("new", 3, 1, Transaction(facts()))
    assert len(ids) == 2
    assert ids.pop("new", None) is not None
    assert ids.pop("new", None) is None
    found = ids.get("a")
    assert ids.pop("a", None) is found
    assert (len(ids), ids.get("a")) == (0, None)


def test_all_are_looked_at_without_being_kept() -> None:
    ids, made = stored("a", "b")
    kept = ids.get("b")
    assert {one.transactional_id for one in ids.all()} == {"a", "b"}
    assert next(one for one in ids.all() if one.transactional_id == "b") is kept
    assert (list(ids.values()), made) == ([kept], ["b", "a"])


def test_idle_ids_are_named_with_their_last_change() -> None:
    ids, made = stored("a", "b", update_ms=1_700_000_000_000)
    for name, state in (("open", TransactionState.ONGOING), ("done", TransactionState.COMPLETE_ABORT)):
        ids[name] = Entry(name, 3, 1, Transaction(facts(state)))
    expiring = Transaction(facts())
    expiring.expire()
    ids["expiring"] = Entry("expiring", 3, 1, expiring)
    assert sorted(ids.idle()) == [(77, "done"), (1_700_000_000_000, "a"), (1_700_000_000_000, "b")]
    assert made == []


def test_ids_may_go_while_they_are_looked_at() -> None:
    ids, _made = stored("a", "b", "c")
    names = []
    for _updated_ms, name in ids.idle():
        names.append(name)
        ids.get("c")
        ids.pop("c", None)
    assert names == ["a", "b"]
