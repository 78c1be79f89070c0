"""PKAFKA_PURE=1 runs the sources where compiled modules stand beside them."""

import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_PROGRAM = """
import sys
import package
if sys.argv[1] == "sources":
    from pkafka.hot_path import prefer_sources
    prefer_sources(package.__path__[0])
import package.inner.module
print(package.inner.module.__file__)
"""


@pytest.mark.parametrize("prefers", ["sources", "libraries"])
def test_sources_come_before_libraries_in_all_of_a_package(tmp_path: Path, prefers: str) -> None:
    inner = tmp_path / "package" / "inner"
    inner.mkdir(parents=True)
    for name in (tmp_path / "package" / "__init__.py", inner / "__init__.py", inner / "module.py"):
        name.touch()
    (inner / f"module{EXTENSION_SUFFIXES[0]}").write_bytes(b"no library at all")
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, prefers],
        env={"PYTHONPATH": f"{tmp_path}:{ROOT}"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    if prefers == "sources":
        assert done.stdout == f"{inner / 'module.py'}\n", done.stderr
    else:
        assert "ImportError" in done.stderr
