"""Values that stand elsewhere: ``${file:/path/to/file:key}`` in a configuration (KIP-297).

Providers are Kafka's: files of properties, directories with a file a value, and variables of the environment. What they
give is put in just before a connector or a task starts; what is stored and shown keeps the reference.
"""

import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from pkafka.connect.errors import ConfigError
from pkafka.errors import ConfigError as PropertiesError
from pkafka.java.properties import load_properties

_REFERENCE: Final = re.compile(r"\$\{([^}:]*):(?:([^}]*):)?([^}:]*)\}")
_JAVA: Final = "org.apache.kafka.common.config.provider."

Provider = Callable[[str, str], str | None]
"""The value of a path and a key; None: there is none."""


def load_providers(configs: Mapping[str, str]) -> dict[str, Provider]:
    """The providers that a worker's settings name.

    Raises:
        ConfigError: one has no class, or an unknown one.
    """
    found: dict[str, Provider] = {}
    for name in (each.strip() for each in (configs.get("config.providers") or "").split(",")):
        if not name:
            continue
        key = f"config.providers.{name}.class"
        kind = (configs.get(key) or "").removeprefix(_JAVA)
        make = _PROVIDERS.get(kind)
        if make is None:
            raise ConfigError.of(key, configs.get(key), f"there are the providers {', '.join(_PROVIDERS)}")
        prefix = f"config.providers.{name}.param."
        found[name] = make({k.removeprefix(prefix): v for k, v in configs.items() if k.startswith(prefix)})
    return found


def resolved(configs: Mapping[str, str], providers: Mapping[str, Provider]) -> dict[str, str]:
    """The same settings with the values that references stand for.

    A reference to a provider that is not configured stays as it is, as in Kafka.

    Raises:
        ConfigError: a provider has no value.
    """
    if not providers:
        return dict(configs)

    def value_of(name: str, match: re.Match[str]) -> str:
        provider = providers.get(match[1])
        if provider is None:
            return match[0]
        value = provider(match[2] or "", match[3])
        if value is None:
            raise ConfigError(
                f"The value of {name} refers to {match[0]}, which the provider {match[1]} does not have"
            )
        return value

    return {
        name: _REFERENCE.sub(partial(value_of, name), value) if value else value
        for name, value in configs.items()
    }


def _allowed(params: Mapping[str, str], path: str) -> Path:
    """A path that the provider may read (KIP-993)."""
    found = Path(path)
    allowed = [Path(each.strip()) for each in (params.get("allowed.paths") or "").split(",") if each.strip()]
    real = found.resolve()
    if allowed and not any(real.is_relative_to(each.resolve()) for each in allowed):
        raise ConfigError(f"The path {path} is not within allowed.paths")
    return found


def _files(params: Mapping[str, str]) -> Provider:
    def value(path: str, key: str) -> str | None:
        try:
            return load_properties(_allowed(params, path)).get(key)
        except PropertiesError as error:
            raise ConfigError(f"Could not read properties from file {path}: {error}") from error

    return value


def _directories(params: Mapping[str, str]) -> Provider:
    def value(path: str, key: str) -> str | None:
        file = _allowed(params, path) / key
        try:
            return file.read_text() if Path(key).name == key else None
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"Could not read file {file} for property {key}: {error}") from error

    return value


def _environment(params: Mapping[str, str]) -> Provider:
    pattern = re.compile(params.get("allowlist.pattern") or ".*")

    def value(_path: str, key: str) -> str | None:
        return os.environ.get(key) if pattern.fullmatch(key) else None

    return value


_PROVIDERS: Final[dict[str, Callable[[Mapping[str, str]], Provider]]] = {
    "FileConfigProvider": _files,
    "DirectoryConfigProvider": _directories,
    "EnvVarConfigProvider": _environment,
}
