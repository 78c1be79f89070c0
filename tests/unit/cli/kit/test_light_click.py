"""Stand-ins for modules that commands hardly use, and the width of a terminal."""

import gettext
import inspect
import shutil
import subprocess
import sys

import click
import pytest

from pkafka.cli.kit.light_click import (
    LightContext,
    StandIn,
    clean_doc,
    untranslated,
    untranslated_number,
)

DOCS = (
    "",
    "one line",
    "   one line   ",
    "First.\n\n    Second.\n      Third.\n    ",
    "\n\n    First.\n\n\tSecond.\n",
    "First.\nSecond.",
    " \n  \n   x\n  y\n  \n",
    "\n   ",
)


@pytest.mark.parametrize("text", DOCS)
def test_docstrings_lose_their_indentation_as_inspect_has_it(text: str) -> None:
    assert clean_doc(text) == inspect.cleandoc(text)


def test_a_stand_in_becomes_the_module_when_it_is_asked_for_more(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in = StandIn("this_module_is_colorsys", {"known": 1})
    stand_in.__dict__["__name__"] = "colorsys"
    monkeypatch.setitem(sys.modules, "colorsys", stand_in)
    assert stand_in.known == 1
    assert not hasattr(stand_in, "__file__")
    assert sys.modules["colorsys"] is stand_in
    assert pytest.approx(1 / 3) == stand_in.ONE_THIRD
    assert sys.modules["colorsys"] is not stand_in
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = stand_in.nothing


def test_everything_of_click_works_behind_stand_ins() -> None:
    program = """
import pkafka.cli, click, sys, types
from pkafka.cli.kit.light_click import StandIn
assert isinstance(sys.modules["inspect"], StandIn)
number = "12345678-1234-5678-1234-567812345678"
assert str(click.UUID.convert(number, None, None)) == number
assert isinstance(click.UUID.convert(number, None, None), __import__("uuid").UUID)
import inspect, ipaddress
assert list(inspect.signature(lambda a: a).parameters) == ["a"]
assert ipaddress.ip_address("127.0.0.1").is_loopback
import inspect, ipaddress, uuid
assert not {type(each) for each in (inspect, ipaddress, uuid)} & {StandIn}
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_words_are_those_of_gettext_without_translations() -> None:
    assert untranslated("Usage:") == gettext.gettext("Usage:")
    for count in (0, 1, 2):
        assert untranslated_number("one", "many", count) == gettext.ngettext("one", "many", count)


@pytest.mark.parametrize("columns", ["", "0", "x", "40", "70", "200"])
def test_help_is_as_wide_as_the_terminal(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr("click.formatting.FORCED_WIDTH", None)
    command = click.Command("x")
    ours, clicks = (
        kind(command, max_content_width=110).make_formatter().width for kind in (LightContext, click.Context)
    )
    assert ours == clicks
    assert ours == max(min(shutil.get_terminal_size().columns, 110) - 2, 50)
