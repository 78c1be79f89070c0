"""Named settings of clients, for people with several clusters: ``--profile``, ``PK_PROFILE``, or a file's own choice.

``.pkafka.toml`` of the folder or of one above it, and ``pkafka/profiles.toml`` of the user's configuration::

    default-profile = "local"

    [profiles.local]
    bootstrap.servers = "localhost:9092"

A profile of the folder hides the user's of the same name.
"""

import os
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from pkafka.errors import ConfigError

PROJECT_FILE: Final = ".pkafka.toml"
_DEFAULT: Final = "default-profile"
_PROFILES: Final = "profiles"


class Profile(NamedTuple):
    """Settings by key, and the file that has them."""

    name: str
    path: str
    settings: Mapping[str, str]


def find_profile(name: str | None) -> Profile | None:
    """The profile of that name; without a name the one that the nearest file chooses, if any does.

    Raises:
        ConfigError: there is none of that name, or a file is not as described in the module's text.
    """
    documents = [(path, _read(path)) for path in _files()]
    if name is None:
        chosen = next(((path, each[_DEFAULT]) for path, each in documents if _DEFAULT in each), None)
        if chosen is None:
            return None
        name = str(chosen[1])
    known: list[str] = []
    for path, document in documents:
        profiles = document.get(_PROFILES, {})
        if name in profiles:
            return Profile(name, path, dict(_flat(path, profiles[name], "")))
        known += profiles
    where = f"there are {', '.join(sorted(set(known)))}" if known else f"no {PROJECT_FILE} has any"
    raise ConfigError("profile", f"there is no such profile; {where}", name)


def profile_names() -> list[str]:
    """The names of all profiles.

    Raises:
        ConfigError: a file is not as described in the module's text.
    """
    return sorted({name for path in _files() for name in _read(path).get(_PROFILES, {})})


def _files() -> Iterator[str]:
    """The files that exist, the nearest first."""
    folder = os.getcwd()
    while not os.path.isfile(os.path.join(folder, PROJECT_FILE)) and folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    for path in (os.path.join(folder, PROJECT_FILE), os.path.join(home, "pkafka", "profiles.toml")):
        if os.path.isfile(path):
            yield path


def _read(path: str) -> dict[str, Any]:
    import tomllib

    try:
        with open(path, "rb") as file:
            document = tomllib.load(file)
    except OSError as error:
        raise ConfigError(path, f"cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(path, str(error)) from error
    except RecursionError as error:
        raise ConfigError(path, "it is nested too deeply") from error
    unknown = sorted(document.keys() - {_DEFAULT, _PROFILES})
    if unknown:
        raise ConfigError(path, f"{unknown[0]} is not known; there are {_DEFAULT} and {_PROFILES}")
    profiles = document.get(_PROFILES, {})
    if not isinstance(profiles, dict) or not all(isinstance(each, dict) for each in profiles.values()):
        raise ConfigError(path, f"[{_PROFILES}.NAME] needs a table of settings")
    return document


def _flat(path: str, settings: Mapping[str, object], prefix: str) -> Iterator[tuple[str, str]]:
    """Keys with their dots, which TOML takes for tables in tables."""
    for key, value in settings.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from _flat(path, value, f"{name}.")
        elif isinstance(value, list):
            yield name, ",".join(str(each) for each in value)
        elif isinstance(value, bool):
            yield name, str(value).lower()
        elif isinstance(value, str | int | float):
            yield name, str(value)
        else:
            raise ConfigError(path, f"{name} needs text, a number, true, false or a list")
