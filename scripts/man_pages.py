"""Man pages of files and of the whole, from docs/man/NAME.SECTION.md: text by hand, tables from the code.

The sources are Markdown as far as a man page needs it: a title ``# name(section): summary``, headings, paragraphs,
fenced code, definitions (a term, and below it ``: `` with its text), ``code``, **bold** and *italic*. A word in braces
on a line of its own is replaced by what the code says.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import click

from pkafka import KAFKA_VERSION, __version__
from pkafka.cli import schemas
from pkafka.cli.completions import generate
from pkafka.server.config.keys import ConfigKey, broker_keys, documentation_of
from pkafka.server.config.keys.effects import (
    BROKER_ACCEPTED_WITHOUT_EFFECT,
    BROKER_EFFECTIVE,
    BROKER_WITHOUT_MEANING,
)
from scripts import json_output, reference

SOURCES: Final = Path(__file__).resolve().parent.parent / "docs" / "man"
_TITLE: Final = re.compile(r"# (\S+)\((\d)\): (.+)")
_MARKED: Final = re.compile(r"`([^`]+)`|\*\*([^*]+)\*\*|\*([^*]+)\*")
_PLACE: Final = re.compile(r"\{([a-z-]+)\}")
_LIVE: Final = {"per-broker": "live", "cluster-wide": "live, also for all brokers"}


def files(commands: Mapping[str, click.Command]) -> dict[str, str]:
    """Every page, by path below the root."""
    tables: dict[str, Callable[[], Iterable[str]]] = {
        "commands": lambda: _commands(commands),
        "statuses": _statuses,
        "effective-keys": _effective_keys,
        "meaningless-keys": _meaningless_keys,
        "idle-keys": _idle_keys,
        "perf-report": _perf_report,
    }
    made = {}
    for source in sorted(SOURCES.glob("*.md")):
        text = source.read_text(encoding="utf-8").replace("{kafka}", KAFKA_VERSION)
        lines: list[str] = []
        for line in text.splitlines():
            place = _PLACE.fullmatch(line)
            lines += tables[place[1]]() if place else [line]
        made[f"man/{source.stem}"] = page(lines)
    return made


# -- what the code says, as Markdown -----------------------------------------------------------------------


def _commands(commands: Mapping[str, click.Command]) -> Iterator[str]:
    for name, command in sorted(commands.items()):
        yield from (f"{name}(1)", f": {generate.summary(command)}.", "")


def _statuses() -> Iterator[str]:
    for status, text in generate.STATUSES.items():
        yield from (str(int(status)), f": {text}", "")


def _effective_keys() -> Iterator[str]:
    for key in sorted(broker_keys().values()):
        if key.name in BROKER_EFFECTIVE:
            yield from (f"{key.name}", f": {documentation_of(key.name)} ({_facts(key)})", "")


def _facts(key: ConfigKey) -> str:
    default = reference.shown_default(key.default)
    facts = [key.type, f"default {default}" if default else "no default", reference.valid_values(key)]
    return "; ".join(each for each in [*facts, _LIVE.get(key.update_mode, "")] if each)


def _meaningless_keys() -> Iterator[str]:
    by_reason: dict[str, list[str]] = {}
    for name, why in sorted(BROKER_WITHOUT_MEANING.items()):
        by_reason.setdefault(why, []).append(name)
    for why, names in by_reason.items():
        yield from (why, f": {', '.join(names)}", "")


def _idle_keys() -> Iterator[str]:
    known = broker_keys()
    yield ", ".join(name for name in sorted(BROKER_ACCEPTED_WITHOUT_EFFECT) if not known[name].internal) + "."


def _perf_report() -> Iterator[str]:
    for key, kind, meaning in json_output.keys(schemas.load()["pk-perf-test.run"]):
        yield from (f"{key} ({kind})", f": {meaning}", "")


# -- Markdown to roff --------------------------------------------------------------------------------------


def page(lines: Iterable[str]) -> str:
    """The page that a source says, as groff and mandoc read it."""
    rest = iter(lines)
    title = _TITLE.fullmatch(next(rest))
    assert title is not None, "a source begins with # name(section): summary"
    name, section, summary = title.groups()
    made = [
        f'.TH {name.upper()} {section} "" "pkafka {__version__}" "pkafka"',
        ".SH NAME",
        f"{generate.roff(name)} \\- {generate.roff(summary)}",
    ]
    for block in _blocks(rest):
        made += _block(block)
    return "\n".join(made) + "\n"


def _blocks(lines: Iterable[str]) -> Iterator[list[str]]:
    """Lines that belong together; fenced code as it is."""
    block: list[str] = []
    fenced = False
    for line in lines:
        if line.startswith("```"):
            fenced = not fenced
        if line or fenced:
            block.append(line)
        elif block:
            yield block
            block = []
    if block:
        yield block


def _block(lines: list[str]) -> Iterator[str]:
    first = lines[0]
    if first.startswith("## "):
        yield f".SH {generate.roff(first[3:])}"
    elif first.startswith("```"):
        yield from (".PP", ".RS 4", ".EX")
        yield from (generate.roff(line) for line in lines[1:-1])
        yield from (".EE", ".RE")
    elif len(lines) > 1 and lines[1].startswith(": "):
        yield from (".TP", _term(first), _inline(" ".join([lines[1][2:], *lines[2:]])))
    else:
        yield from (".PP", _inline(" ".join(lines)))


def _term(text: str) -> str:
    return _inline(text) if _MARKED.search(text) else f"\\fB{generate.roff(text)}\\fR"


def _inline(text: str) -> str:
    made, end = "", 0
    for mark in _MARKED.finditer(text):
        bold = mark[1] or mark[2]
        font = "B" if bold else "I"
        made += _plain(text[end : mark.start()]) + f"\\f{font}{_plain(bold or mark[3])}\\fR"
        end = mark.end()
    made += _plain(text[end:])
    return f"\\&{made}" if made[:1] in (".", "'") else made


def _plain(text: str) -> str:
    return text.replace("\\", "\\e").replace("-", "\\-")
