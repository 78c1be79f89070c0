"""Stored settings of a topic, broker, user, client or address: read, and changed together with a note for brokers."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from pkafka.coordination.store import (
    BadVersionError,
    CreateOp,
    NodeExistsError,
    NoNodeError,
    SetOp,
    Store,
    parent_of,
)
from pkafka.coordination.znodes import CONFIG_CHANGES, ConfigChange, EntityConfig

_WRITE_ATTEMPTS: Final = 20


def read_config(store: Store, entity_type: str, entity_name: str) -> dict[str, str]:
    """The stored settings of an entity; empty where it has no node.

    Raises:
        StoreError: the store failed.
        ZnodeFormatError: the node holds something else.
    """
    node = store.get_many([EntityConfig.path(entity_type, entity_name)])[0]
    return {} if node is None else _decode("", node[0])


def read_configs(store: Store, entity_type: str) -> dict[str, dict[str, str]]:
    """The stored settings of all entities of a type, by name, sanitized as in their paths.

    Raises:
        StoreError: the store failed.
        ZnodeFormatError: a node holds something else.
    """
    root = EntityConfig.path(entity_type, "")[:-1]
    try:
        names = store.children(root)
    except NoNodeError:
        return {}
    nodes = store.get_many([EntityConfig.path(entity_type, name) for name in names])
    return {name: _decode("", node[0]) for name, node in zip(names, nodes, strict=True) if node is not None}


def _decode(_path: str, data: bytes) -> dict[str, str]:
    return dict(EntityConfig.decode(data).config)


def update_config(
    store: Store,
    entity_type: str,
    entity_name: str,
    change: Callable[[dict[str, str]], Mapping[str, str]],
    *,
    decode: Callable[[str, bytes], dict[str, str]] = _decode,
) -> Mapping[str, str]:
    """Change the stored settings of an entity and leave a note; what another client changes meanwhile is not lost.

    Args:
        entity_type, entity_name: as :meth:`EntityConfig.path` takes them.
        change: gives the new settings for the stored ones; may raise, and may run again after a conflict.
        decode: reads a node, given its path and data.

    Returns:
        The settings written.

    Raises:
        StoreError: the store failed; after a lost connection the change may still be made.
        ZnodeFormatError: the node holds something else.
    """
    path = EntityConfig.path(entity_type, entity_name)
    note = CreateOp(
        ConfigChange.create_path(), ConfigChange(f"{entity_type}/{entity_name}").encode(), sequential=True
    )
    for attempt in range(_WRITE_ATTEMPTS):
        node = store.get_many([path])[0]
        configs = change(decode(path, node[0]) if node is not None else {})
        data = EntityConfig(configs).encode()
        try:
            if node is None:
                _ensure(store, parent_of(path))
                store.multi([CreateOp(path, data), note])
            else:
                store.multi([SetOp(path, data, version=node[1].version), note])
            return configs
        except NoNodeError:
            if attempt == _WRITE_ATTEMPTS - 1:
                raise
            _ensure(store, CONFIG_CHANGES)  # no broker has ever run here
        except (BadVersionError, NodeExistsError):
            if attempt == _WRITE_ATTEMPTS - 1:
                raise
    raise AssertionError("the last attempt returns or raises")


def _ensure(store: Store, path: str) -> None:
    with suppress(NodeExistsError):
        store.create(path, b"", make_parents=True)
