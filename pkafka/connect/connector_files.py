"""Connectors that files define, and what there is to do so that a worker runs just these."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from pkafka.connect.errors import ConfigError
from pkafka.connect.states import INITIAL_STATES
from pkafka.errors import ConfigError as PropertiesError
from pkafka.java.properties import load_properties

_SUFFIXES: Final = (".json", ".properties")


@dataclass(frozen=True, slots=True)
class DefinedConnector:
    """A connector that a file defines."""

    name: str
    configs: dict[str, str]
    initial_state: str | None
    """RUNNING, PAUSED or STOPPED; None: RUNNING."""
    origin: Path


def read_connector(path: Path) -> DefinedConnector:
    """A connector in a file: properties, JSON of settings, or the body of ``POST /connectors``.

    Raises:
        ConfigError: the file cannot be read, or has no connector.
    """
    given = _document(path)
    wraps = isinstance(given.get("config"), dict)
    inner = given["config"] if wraps else given
    assert isinstance(inner, dict)
    configs = {}
    for key, value in inner.items():
        if isinstance(value, dict | list):
            raise ConfigError(f"{path}: the value of {key} has to be a text")
        if value is not None:
            configs[key] = value if isinstance(value, str) else json.dumps(value)
    name = given.get("name") if wraps else configs.get("name")
    if not isinstance(name, str) or not name:
        raise ConfigError(f"{path} has no name of a connector")
    if configs.setdefault("name", name) != name:
        raise ConfigError(f"{path} has two names of a connector: {name} and {configs['name']}")
    state = given.get("initial_state") if wraps else None
    if state is not None and str(state).upper() not in INITIAL_STATES:
        raise ConfigError(f"{path}: there is no initial_state {state}; there are {', '.join(INITIAL_STATES)}")
    return DefinedConnector(name, configs, None if state is None else str(state).upper(), path)


def _document(path: Path) -> dict[str, object]:
    try:
        if path.suffix != ".json":
            return dict(load_properties(path))
        found = json.loads(path.read_text(encoding="utf-8"))
    except PropertiesError as error:
        raise ConfigError(str(error)) from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"{path} is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise ConfigError(f"{path} has no JSON object")
    return found


def read_connectors(path: Path) -> list[DefinedConnector]:
    """The connector of a file, or those of all files of a directory.

    Raises:
        ConfigError: one cannot be read, two have one name, or there is none.
    """
    if not path.is_dir():
        return [read_connector(path)]
    files = sorted(each for each in path.iterdir() if each.suffix in _SUFFIXES)
    if not files:
        raise ConfigError(f"{path} has no file that ends with {' or '.join(_SUFFIXES)}")
    found: dict[str, DefinedConnector] = {}
    for file in files:
        connector = read_connector(file)
        other = found.setdefault(connector.name, connector)
        if other is not connector:
            raise ConfigError(f"{file} and {other.origin} both define the connector {connector.name}")
    return list(found.values())


class Action(Enum):
    """What there is to do about one connector."""

    CREATE = "create"
    UPDATE = "update"
    UNCHANGED = "unchanged"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Planned:
    """One connector, and what there is to do."""

    name: str
    action: Action
    connector: DefinedConnector | None
    changes: tuple[str, ...] = ()
    """Keys that come, go or change."""


def plan(
    wanted: Iterable[DefinedConnector], present: Mapping[str, Mapping[str, str]], *, deletes: bool
) -> list[Planned]:
    """What there is to do.

    Args:
        present: the configurations of the connectors that there are, by name.
        deletes: whether connectors go that no file defines.
    """
    found = []
    names = set()
    for connector in wanted:
        names.add(connector.name)
        known = present.get(connector.name)
        if known is None:
            found.append(Planned(connector.name, Action.CREATE, connector))
            continue
        changes = tuple(
            sorted(
                key for key in {*known, *connector.configs} if known.get(key) != connector.configs.get(key)
            )
        )
        action = Action.UPDATE if changes else Action.UNCHANGED
        found.append(Planned(connector.name, action, connector, changes))
    if deletes:
        found += [Planned(name, Action.DELETE, None) for name in sorted(present) if name not in names]
    return found
