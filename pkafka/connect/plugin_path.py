"""Directories with packages of plug-ins (``plugin.path``), and what the packages in them announce.

As in Java, ``plugin.path`` names directories that have one directory a plug-in; here that is what
``pip install --target`` fills. A directory on the path may also be such a one itself. Unlike Java's, plug-ins share one
Python: a package in two places counts where it is found first.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from pkafka.connect.plugins import GROUPS, Plugin, Plugins, load_plugins, plugins_of, shipped_plugins

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint

_METADATA: Final = ("*.dist-info", "*.egg-info")
SHIPPED: Final = "classpath"
"""The location of what ships with pkafka: Apache Kafka's word for its own."""


class Found(NamedTuple):
    """What was found of a plug-in.

    Args:
        name: of its class; of one that cannot be imported, what its entry point says.
        plugin: None: it cannot be imported.
        location: the directory of its package.
        problem: why it cannot be imported.
    """

    name: str
    plugin: Plugin | None
    location: str
    problem: str | None = None


def locations(path: Iterable[str | Path]) -> list[Path]:
    """The directories with packages among those of a path and the directories in them."""
    found: list[Path] = []
    for each in map(Path, path):
        if each.is_dir():
            inner = sorted(child for child in each.iterdir() if child.is_dir())
            found += [where for where in (each, *inner) if _has_packages(where)]
    return found


def _has_packages(directory: Path) -> bool:
    return any(True for pattern in _METADATA for _ in directory.glob(pattern))


def plugins_of_worker(properties: Mapping[str, str]) -> Plugins:
    """All plug-ins that a worker has, those of its ``plugin.path`` too."""
    use(path_of(properties))
    return load_plugins()


def path_of(properties: Mapping[str, str]) -> list[str]:
    """The directories of ``plugin.path``."""
    return [each.strip() for each in properties.get("plugin.path", "").split(",") if each.strip()]


def use(path: Iterable[str | Path]) -> None:
    """Let this process find the packages on a path; what is installed counts before them."""
    sys.path += [str(each) for each in locations(path) if str(each) not in sys.path]


def announced(directories: Iterable[Path] | None) -> Iterator[Found]:
    """The plug-ins of packages. The modules of the packages are imported, to see whether they can be.

    Args:
        directories: where packages are, which :func:`use` has made known; None: what ships with pkafka, and all that is
            installed.
    """
    # Not above: it is large, and a worker does without, as plugins.announced_values() says.
    from importlib.metadata import distributions

    if directories is None:
        yield from (Found(each.name, each, SHIPPED) for each in shipped_plugins())
        packages = distributions()
    else:
        packages = distributions(path=[str(each) for each in directories])
    for package in packages:
        for entry in package.entry_points:
            if entry.group in GROUPS:
                yield from _found(entry, package)


def _found(entry: "EntryPoint", package: "Distribution") -> Iterator[Found]:
    location = str(package.locate_file(""))
    try:
        plugins = plugins_of(entry.load())
    except Exception as error:  # noqa: BLE001 - the module of a plug-in may raise anything
        yield Found(entry.value, None, location, f"{type(error).__name__}: {error}")
        return
    if not plugins:
        yield Found(entry.value, None, location, "it is no connector, converter, transform or predicate")
    yield from (Found(each.name, each, location) for each in plugins)
