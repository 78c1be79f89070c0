"""The modules that serve Produce and Fetch may be compiled (``[tool.pkafka]`` in pyproject.toml): whether they are, and
how a process runs their sources all the same."""

import sys
from importlib.machinery import FileFinder, SourceFileLoader
from importlib.util import find_spec


def is_compiled() -> bool:
    """Whether this process runs, or would run, the compiled modules."""
    spec = find_spec("pkafka.storage.log")
    return spec is not None and not str(spec.origin).endswith(".py")


def prefer_sources(package: str) -> None:
    """Have modules in the directory ``package``, and below it, imported from their sources.

    Modules that are imported already stay as they are, so this comes first of all. The inner loops of pkafka.records
    choose for themselves (``pkafka.records.loops``).
    """

    def find(path: str) -> FileFinder:
        if path != package and not path.startswith(package + "/"):
            raise ImportError
        return FileFinder(path, (SourceFileLoader, [".py"]))

    sys.path_hooks.insert(0, find)
    for path in [known for known in sys.path_importer_cache if known.startswith(package)]:
        del sys.path_importer_cache[path]
