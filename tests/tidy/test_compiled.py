"""What mypyc would compile to something else than the source says, in the modules that it compiles."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.compiled import COMPILED

_ROOT = Path(__file__).parents[2]


def _tree(module: str) -> ast.Module:
    return ast.parse((_ROOT / (module.replace(".", "/") + ".py")).read_text())


def _classes(module: str) -> set[str]:
    return {node.name for node in _tree(module).body if isinstance(node, ast.ClassDef)}


def test_each_is_named_once_and_in_order() -> None:
    assert sorted(set(COMPILED)) == COMPILED


@pytest.mark.parametrize("module", COMPILED)
def test_a_name_is_of_one_type_of_error_in_a_function(module: str) -> None:
    """mypyc takes the type of the first ``except ... as name`` for all others: they would raise a TypeError."""
    for function in ast.walk(_tree(module)):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            types: dict[str, set[str]] = {}
            for node in ast.walk(function):
                if isinstance(node, ast.ExceptHandler) and node.name and node.type:
                    types.setdefault(node.name, set()).add(ast.unparse(node.type))
            several = {name: found for name, found in types.items() if len(found) > 1}
            assert not several, f"{module}.{function.name}"


@pytest.mark.parametrize("module", COMPILED)
def test_no_object_is_made_without_its_init(module: str) -> None:
    """``__new__`` of a compiled class calls ``__init__``."""
    classes = _classes(module)
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.Attribute) and node.attr == "__new__" and isinstance(node.value, ast.Name):
            assert node.value.id not in classes, f"{module}:{node.lineno}"


@pytest.mark.parametrize("module", COMPILED)
def test_a_constant_of_floats_is_a_tuple_of_any_length(module: str) -> None:
    """Of a tuple whose first item is a float, and whose length it knows, mypyc 2.4 believes that it was never set."""
    for node in _tree(module).body:
        if (
            isinstance(node, ast.AnnAssign)
            and isinstance(node.value, ast.Tuple)
            and node.value.elts
            and isinstance(node.value.elts[0], ast.Constant)
            and isinstance(node.value.elts[0].value, float)
        ):
            assert ast.unparse(node.annotation) == "Final[tuple[float, ...]]", f"{module}:{node.lineno}"


@pytest.mark.parametrize("module", COMPILED)
def test_no_class_has_attributes_of_each_thread(module: str) -> None:
    """mypyc keeps the attributes of a class that inherits from threading.local in one place for all threads."""
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.ClassDef):
            assert not {"local", "threading.local"} & {ast.unparse(base) for base in node.bases}, node.name


def test_nobody_asks_for_the_cause_of_an_error() -> None:
    """mypyc leaves out the ``from`` of a ``raise``; ``__context__`` is there in either case."""
    asking = {
        path.relative_to(_ROOT).as_posix()
        for path in sorted((_ROOT / "pkafka").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr == "__cause__" and isinstance(node.ctx, ast.Load)
    }
    assert asking <= {
        # Of errors that are raised by modules which are not compiled.
        "pkafka/clients/legacy/producer.py",
        "pkafka/connect/storage/topic_log.py",
        "pkafka/pipeline/load/spark_load.py",
        # It takes the context where there is no cause.
        "pkafka/connect/traces.py",
    }


def test_what_inherits_from_a_compiled_class_is_compiled() -> None:
    """Such a class raises a TypeError when its first object is made."""
    bases = {f"{module}.{name}" for module in COMPILED for name in _native_classes(module)}
    for path in sorted((_ROOT / "pkafka").rglob("*.py")):
        module = ".".join(path.relative_to(_ROOT).with_suffix("").parts)
        if module not in COMPILED:
            found = set(_bases(ast.parse(path.read_text()))) & bases
            assert not found, f"{module} inherits from them, and is not in [tool.pkafka] of pyproject.toml"


def _native_classes(module: str) -> Iterator[str]:
    """Those that are no Exception, enumeration, protocol or named tuple: mypyc makes such as Python does."""
    ordinary = {"NamedTuple", "Protocol", "IntEnum", "Enum", "IntFlag", "TypedDict"}
    for node in _tree(module).body:
        if isinstance(node, ast.ClassDef):
            names = {ast.unparse(base).split("[")[0] for base in node.bases}
            if not names & ordinary and not any(
                name.endswith(("Error", "Exception")) for name in (node.name, *names)
            ):
                yield node.name


def _bases(tree: ast.Module) -> Iterator[str]:
    """The full names of the classes that those of a module inherit from, as far as they are imported there."""
    known: dict[str, Any] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            known |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for base in node.bases:
                first, *rest = ast.unparse(base).split("[")[0].split(".")
                if first in known:
                    yield ".".join([known[first], *rest])
