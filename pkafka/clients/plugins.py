"""Objects of a user's own that a client works with: serializers, partitioners, assignors, interceptors, reporters.

A configuration names them by class (``package.module.Class`` or ``package.module:Class``, or Kafka's own name for what
Kafka has built in), or holds the class or a ready object itself.
"""

import importlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pkafka.errors import ConfigError

_JAVA: Final = "org.apache.kafka."


def load(
    key: str,
    named: object,
    *,
    built_in: Mapping[str, type[Any]] | None = None,
    methods: Sequence[str] = (),
    arguments: Sequence[str] = (),
) -> Any:  # noqa: ANN401 - the caller says what it is
    """The object that a value of the configuration stands for; it is not configured yet.

    Args:
        key: of the configuration, for errors.
        named: the name of a class, a class, or an object that is taken as it is.
        built_in: Kafka's simple class names and what they are here.
        methods: what the object must be able to do.
        arguments: what the class is called with.

    Raises:
        ConfigError: there is no such class, it cannot be made with these arguments, or it lacks a method.
    """
    found = _class_of(key, named, built_in or {}) if isinstance(named, str) else named
    if isinstance(found, type):
        try:
            made = found(*arguments)
        except Exception as error:
            raise ConfigError(key, f"cannot be made: {error}", _name_of(named)) from error
    else:
        made = found
    missing = [name for name in methods if not callable(getattr(made, name, None))]
    if missing:
        raise ConfigError(key, f"has no method {', '.join(missing)}", _name_of(named))
    return made


def load_all(
    key: str,
    named: object,
    configs: Mapping[str, object],
    *,
    built_in: Mapping[str, type[Any]] | None = None,
    methods: Sequence[str] = (),
) -> list[Any]:
    """The objects that a list of the configuration stands for, each configured.

    Args:
        named: names with commas between them, or a list of what :func:`load` takes.
        configs: handed to ``configure`` of each object that has one.

    Raises:
        ConfigError: as :func:`load`.
    """
    if isinstance(named, str):
        named = [text for part in named.split(",") if (text := part.strip())]
    if not isinstance(named, Iterable) or isinstance(named, type):
        named = [named]
    made = [load(key, each, built_in=built_in, methods=methods) for each in named]
    for each in made:
        configure(each, configs)
    return made


def configure(plugin: object, configs: Mapping[str, object]) -> None:
    """Hand the client's configuration to an object that wants it."""
    wanted = getattr(plugin, "configure", None)
    if wanted is not None:
        wanted(configs)


def close_quietly(plugin: object) -> None:
    """Close an object of the user's when it can be; its exceptions are logged."""
    close = getattr(plugin, "close", None)
    if close is None:
        return
    try:
        close()
    except Exception:
        import logging

        logging.getLogger(__name__).exception("%s could not be closed", _name_of(plugin))


def _class_of(key: str, name: str, built_in: Mapping[str, type[Any]]) -> type[Any]:
    name = name.strip()
    simple = name.rpartition(".")[2].rpartition("$")[2]
    if name.startswith(_JAVA) or not ("." in name or ":" in name):
        found = built_in.get(simple)
        if found is None:
            known = f"; known by a Java name: {', '.join(built_in)}" if built_in else ""
            raise ConfigError(key, f"is not a class here, write package.module.Class{known}", name)
        return found
    module, _, attribute = name.rpartition(":" if ":" in name else ".")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # whatever the module does while it is imported
        raise ConfigError(key, f"cannot be found: {error}", name) from error
    if not isinstance(found, type):
        raise ConfigError(key, "is not a class", name)
    return found


def _name_of(named: object) -> str:
    if isinstance(named, str):
        return named
    kind = named if isinstance(named, type) else type(named)
    return f"{kind.__module__}.{kind.__qualname__}"
