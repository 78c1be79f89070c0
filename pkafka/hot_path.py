"""The modules that serve Produce and Fetch may be compiled (``[tool.pkafka]`` in pyproject.toml): whether they are, and
how a process runs their sources, and those of the loops of pkafka.records, all the same."""

import sys
from importlib.machinery import FileFinder, SourceFileLoader
from importlib.util import find_spec


def is_compiled() -> bool:
    """Whether this process runs, or would run, the compiled modules."""
    spec = find_spec("pkafka.storage.log")
    return spec is not None and not str(spec.origin).endswith(".py")


def prefer_sources(package: str) -> None:
    """Have modules in the directory ``package``, and below it, imported from their sources.

    Modules that are imported already stay as they are, so this comes first of all.
    """

    def is_within(path: str) -> bool:
        return path == package or path.startswith(package + "/")

    def find(path: str) -> FileFinder:
        if not is_within(path):
            raise ImportError
        return FileFinder(path, (SourceFileLoader, [".py"]))

    sys.path_hooks.insert(0, find)
    for path in filter(is_within, list(sys.path_importer_cache)):
        del sys.path_importer_cache[path]
