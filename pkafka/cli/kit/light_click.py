"""Imports click without what commands do not use of it: a third of the CPU time of ``--help``.

click imports ``inspect`` for the indentation of help texts, and ``uuid`` for a type of options; these bring a parser
of Python and what else is known of the platform. It asks ``gettext`` for translations of each of its words, which there
are none of. ``pathlib`` of Python 3.11 brings ``ipaddress`` by way of URLs.
Stand-ins take their places, and load the modules themselves when anything else is asked of them. For the width of a
terminal click imports ``shutil``, with all codecs of archives; :class:`LightContext` asks for it without.
"""

import gc
import os
import sys
from collections.abc import Mapping
from importlib import import_module
from types import FunctionType, ModuleType
from typing import Final

_COLUMNS: Final = 80
_MARGIN: Final = 2
_COLUMNS_MIN: Final = 50


class StandIn(ModuleType):
    """Has a few names of a module, and loads the module when it is asked for others.

    Args:
        name: of the module.
        known: the names that it has.
    """

    def __init__(self, name: str, known: Mapping[str, object]) -> None:
        super().__init__(name)
        self.__dict__.update(known)

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):  # which modules need not have: who looks at all of them does not load them
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        found = getattr(import_module(self.__name__), name)
        self.__dict__[name] = found
        return found


def clean_doc(text: str) -> str:
    """A docstring without the indentation of its lines, nor empty lines around it, as ``inspect.cleandoc`` makes it."""
    lines = text.expandtabs().split("\n")
    indents = [len(line) - len(line.lstrip()) for line in lines[1:] if line.lstrip()]
    indent = min(indents, default=0)
    lines = [lines[0].lstrip(), *(line[indent:] for line in lines[1:])]
    while lines and not lines[-1]:
        del lines[-1]
    while lines and not lines[0]:
        del lines[0]
    return "\n".join(lines)


def is_function(value: object) -> bool:
    """As ``inspect.isfunction``."""
    return isinstance(value, FunctionType)


def untranslated(text: str) -> str:
    """As ``gettext.gettext`` without translations."""
    return text


def untranslated_number(one: str, many: str, count: int) -> str:
    """As ``gettext.ngettext`` without translations."""
    return one if count == 1 else many


_STAND_INS: Final[Mapping[str, Mapping[str, object]]] = {
    "inspect": {"cleandoc": clean_doc, "isfunction": is_function},
    "uuid": {"UUID": object},  # for the definition of a class, as long as click is imported
    "gettext": {"gettext": untranslated, "ngettext": untranslated_number},
    "ipaddress": {},
}
for _name, _known in _STAND_INS.items():
    if _name not in sys.modules:
        sys.modules[_name] = StandIn(_name, _known)

_collects = gc.isenabled()
gc.disable()  # what is imported stays
import click  # noqa: E402 - after the stand-ins are there
import click.formatting  # noqa: E402

if _collects:
    gc.enable()
if isinstance(sys.modules["uuid"], StandIn):
    del sys.modules["uuid"].__dict__["UUID"]


class _LightFormatter(click.HelpFormatter):
    """Asks the terminal itself how wide it is."""

    def __init__(
        self, indent_increment: int = 2, width: int | None = None, max_width: int | None = None
    ) -> None:
        if width is None and click.formatting.FORCED_WIDTH is None:
            width = max(min(_terminal_columns(), max_width or _COLUMNS) - _MARGIN, _COLUMNS_MIN)
        super().__init__(indent_increment, width, max_width)


class LightContext(click.Context):
    """A context whose help needs no ``shutil``."""

    formatter_class = _LightFormatter


def _terminal_columns() -> int:
    """As ``shutil.get_terminal_size``: what the environment says, else the terminal, else 80."""
    try:
        columns = int(os.environ["COLUMNS"])
    except (KeyError, ValueError):
        columns = 0
    if columns <= 0:
        try:
            assert sys.__stdout__ is not None
            columns = os.get_terminal_size(sys.__stdout__.fileno()).columns
        except (AssertionError, AttributeError, ValueError, OSError):
            columns = 0
    return columns or _COLUMNS
