"""Settings and the note of their change are written together, whoever else writes them."""

from collections.abc import Mapping

import pytest

from pkafka.coordination.entity_configs import read_config, update_config
from pkafka.coordination.store import Store
from pkafka.coordination.znode_json import ZnodeFormatError
from pkafka.coordination.znodes import CONFIG_CHANGES, ConfigChange, EntityConfig


def notes(store: Store) -> list[str]:
    return [
        ConfigChange.decode(store.get(f"{CONFIG_CHANGES}/{name}")[0]).entity_path
        for name in sorted(store.children(CONFIG_CHANGES))
    ]


def test_where_no_broker_has_ever_run(store: Store) -> None:
    assert read_config(store, "users", "bob") == {}
    assert update_config(store, "users", "bob", lambda old: {**old, "a": "1"}) == {"a": "1"}
    update_config(store, "users", "bob", lambda old: {**old, "b": "2"})
    assert read_config(store, "users", "bob") == {"a": "1", "b": "2"}
    assert notes(store) == ["users/bob"] * 2


def test_what_others_write_meanwhile_stays(store: Store) -> None:
    store.create(CONFIG_CHANGES, b"", make_parents=True)
    path = EntityConfig.path("brokers", "5")
    store.create(path, EntityConfig({"a": "1"}).encode(), make_parents=True)
    calls = 0

    def change(old: dict[str, str]) -> Mapping[str, str]:
        nonlocal calls
        calls += 1
        if calls == 1:
            store.set(path, EntityConfig({"a": "other"}).encode())
        return {**old, "b": "2"}

    update_config(store, "brokers", "5", change)
    assert (read_config(store, "brokers", "5"), calls) == ({"a": "other", "b": "2"}, 2)
    assert notes(store) == ["brokers/5"]


def test_what_is_refused_changes_nothing(store: Store) -> None:
    path = EntityConfig.path("topics", "t")
    store.create(path, b"{", make_parents=True)
    with pytest.raises(ZnodeFormatError):
        update_config(store, "topics", "t", lambda old: old)
    healed = update_config(store, "topics", "t", lambda old: {**old, "a": "1"}, decode=lambda *_: {})
    assert healed == read_config(store, "topics", "t") == {"a": "1"}
