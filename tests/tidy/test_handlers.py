"""Every API that a broker serves is tested: by a test of its handler's module, or by the calls of every API."""

import ast
from functools import cache
from pathlib import Path

import pytest

import pkafka.server.handlers
from pkafka.protocol.api import ApiKey
from pkafka.server.control.apis import HANDLERS
from pkafka.server.handlers import CONTROL_APIS, FRAME_APIS, MESSAGE_APIS

TESTS = Path(__file__).resolve().parent.parent
PACKAGE = "pkafka.server.handlers"
MODULES = sorted(
    path.stem for path in Path(pkafka.server.handlers.__path__[0]).glob("*.py") if path.stem != "__init__"
)


@cache
def imported_by_tests() -> set[str]:
    """The handlers' modules that a test imports."""
    found: set[str] = set()
    for file in TESTS.rglob("*.py"):
        if file == Path(__file__):
            continue
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module == PACKAGE:
                found.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE + "."):
                found.add(str(node.module).rpartition(".")[2])
    return found


@cache
def called_over_the_wire() -> set[ApiKey]:
    """The keys that the calls of every API name, as ``ApiKey.NAME``."""
    tree = ast.parse((TESTS / "interop" / "test_every_api.py").read_text("utf-8"))
    return {
        ApiKey[node.attr]
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "ApiKey"
    }


HANDLERS_BY_KEY = {**FRAME_APIS, **MESSAGE_APIS, **HANDLERS}


@pytest.mark.parametrize("name", MODULES)
def test_every_module_of_a_handler_is_tested(name: str) -> None:
    keys = {key for key, handler in HANDLERS_BY_KEY.items() if handler.__module__ == f"{PACKAGE}.{name}"}
    assert name in imported_by_tests() or keys & called_over_the_wire(), f"no test uses handlers/{name}.py"


def test_the_tables_of_the_apis_agree() -> None:
    assert set(HANDLERS) == CONTROL_APIS
    assert not {*FRAME_APIS} & {*MESSAGE_APIS}
    assert not {*FRAME_APIS, *MESSAGE_APIS} & CONTROL_APIS
