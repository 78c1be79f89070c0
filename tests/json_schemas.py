"""What tests ask of the schemas of JSON output: which commands need one, and whether a document is as promised."""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import click
from jsonschema import Draft202012Validator, FormatChecker
from referencing import Registry, Resource

from pkafka.cli import schemas
from scripts.regenerate import commands

Schema = dict[str, Any]

SCHEMAS = schemas.load()
COMMON = frozenset({"error", "show-config"})
"""Of no command alone."""
BESIDE_OUTPUT = frozenset({"pk-console-producer.input", "pk-verifiable-producer", "pk-verifiable-consumer"})
"""Of JSON that is not asked for by --output."""
_FORMATS = FormatChecker(())


@_FORMATS.checks("date-time", raises=ValueError)
def _is_moment(text: object) -> bool:
    """ISO 8601 with a zone: without one it is another moment on every machine."""
    return not isinstance(text, str) or datetime.fromisoformat(text).tzinfo is not None


def check(value: object, name: str, part: str = "") -> None:
    """Compare JSON with a schema, or with a part of it, such as ``row``.

    Raises:
        AssertionError: says where it differs.
    """
    reference = f"{name}.json" + (f"#/$defs/{part}" if part else "")
    resources = ((f"{each}.json", Resource.from_contents(schema)) for each, schema in SCHEMAS.items())
    registry: Registry[Any] = Registry().with_resources(resources)
    validator = Draft202012Validator({"$ref": reference}, registry=registry, format_checker=_FORMATS)
    problems = [f"{error.json_path}: {error.message}" for error in validator.iter_errors(value)]
    assert not problems, f"{reference}: {problems}: {json.dumps(value)[:2_000]}"


def check_cells(header: list[str], cells: list[str], name: str) -> None:
    """Compare a line of CSV with the columns that a schema promises."""
    definitions = SCHEMAS[name]["$defs"]
    row = definitions.get("csv_row", definitions["row"])
    assert header == list(row["properties"])
    assert len(cells) == len(header)
    values = {
        column: _value(text, row["properties"][column]) for column, text in zip(header, cells, strict=True)
    }
    check(values, name, "csv_row" if "csv_row" in definitions else "row")


def _value(text: str, schema: Schema) -> object:
    """What a cell says. An error is ``NAME: message``, and any list or mapping is text."""
    if not text and None in (schema.get("enum") or [None]):
        return None if "null" in _types(schema) or "anyOf" in schema else text
    if "anyOf" in schema:
        failed, _, message = text.partition(": ")
        return {"code": None, "name": failed, "message": message}
    types = _types(schema)
    if "boolean" in types:
        return {"true": True, "false": False}[text]
    for kind, read in (("integer", int), ("number", float)):
        if kind in types:
            try:
                return read(text)
            except ValueError:
                assert "string" in types, f"{text} is no {kind}"
    return text


def _types(schema: Schema) -> list[str]:
    found = schema.get("type", [])
    return [found] if isinstance(found, str) else found


def leaves() -> Iterator[tuple[str, list[str], list[click.Parameter]]]:
    """Every command that does something: its name with the verb, the verb, and the flags before and behind it."""
    for name, command in commands():
        if not isinstance(command, click.Group):
            yield name, [], command.params
            continue
        for verb, inner in command.commands.items():
            assert not isinstance(inner, click.Group), "a verb of a verb would need names of schemas"
            yield f"{name}.{verb}", [verb], [*command.params, *inner.params]


def prints_json(params: list[click.Parameter]) -> bool:
    """Whether ``--output`` takes json."""
    return any(
        each.name == "output" and isinstance(each.type, click.Choice) and "json" in each.type.choices
        for each in params
    )


def lacking(known: Mapping[str, Schema]) -> list[str]:
    """The commands and verbs with ``--output json`` that have no schema."""
    return [
        name
        for name, _, params in leaves()
        if prints_json(params) and not any(each == name or each.startswith(f"{name}.") for each in known)
    ]
