"""The modules that mypyc may compile, and what their being compiled means for tests."""

import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

_PROJECT: Final = Path(__file__).parents[1] / "pyproject.toml"
COMPILED: Final[list[str]] = tomllib.loads(_PROJECT.read_text())["tool"]["pkafka"]["compiled"]


def skip_what_is_not_looked_up(patch: pytest.MonkeyPatch) -> None:
    """Have a test skipped that replaces something of a compiled module: compiled code does not look up what it calls
    there. To put a thing in its own place replaces nothing."""
    replace = patch.setattr

    def setattr_or_skip(target: Any, name: Any, *value: Any, **options: Any) -> None:
        if isinstance(target, str):
            module_name = target.rpartition(".")[0]
        else:
            owner = target if isinstance(target, (ModuleType, type)) else type(target)
            module_name = owner.__name__ if isinstance(owner, ModuleType) else owner.__module__
        stays = not isinstance(target, str) and bool(value) and getattr(target, name, None) is value[0]
        if module_name in COMPILED and _is_compiled(sys.modules[module_name]) and not stays:
            pytest.skip(f"{module_name} is compiled, and would not see another {name}")
        replace(target, name, *value, **options)

    patch.setattr = setattr_or_skip  # type: ignore[method-assign]


def _is_compiled(module: ModuleType) -> bool:
    return not str(module.__file__).endswith(".py")
