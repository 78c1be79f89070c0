"""Every command that prints JSON has a schema, and the schemas promise something."""

import re
from collections.abc import Iterator

import pytest
from jsonschema import Draft202012Validator

from pkafka.tools.logs.rows import FIELDS
from tests.json_schemas import BESIDE_OUTPUT, COMMON, SCHEMAS, Schema, lacking, leaves, prints_json

_KAFKAS_NAMES = {"minOffset", "maxOffset"}
"""Of the verifiable tools, whose readers look for these."""
_FIELDS_OF_DECLARATIONS = {"replication-factor"}
_OPEN = {("pk-console-producer.input", "")}
"""A reader passes over what it does not know."""
_LATER_KEYS = {
    "pk-console-consumer": {"error"},
    "pk-dump-log": {"error", "problems"},
    "pk-pipeline.run": {"error", "summary"},
    "pk-replica-verification": {"error"},
    "pk-top": {"error"},
}
"""What is left out of documents that are printed while they grow, and end in one way or another."""


def objects(schema: object, path: str = "") -> Iterator[tuple[str, Schema]]:
    """Every object within a schema that is described key by key."""
    if isinstance(schema, dict):
        if "properties" in schema and "type" in schema:
            yield path, schema
        for key, inner in schema.items():
            yield from objects(inner, f"{path}/{key}")
    elif isinstance(schema, list):
        for number, inner in enumerate(schema):
            yield from objects(inner, f"{path}/{number}")


def test_every_command_with_json_has_a_schema() -> None:
    assert lacking(SCHEMAS) == []


def test_a_missing_schema_is_noticed() -> None:
    known = {
        name: schema for name, schema in SCHEMAS.items() if not name.startswith(("pk-topics.", "pk-dev.up"))
    }
    assert lacking(known) == ["pk-dev.up", "pk-topics"]


def test_every_schema_belongs_to_a_command() -> None:
    known = [name for name, _, params in leaves() if prints_json(params)]
    lost = [
        name
        for name in SCHEMAS.keys() - COMMON - BESIDE_OUTPUT
        if not any(name == each or name.startswith(f"{each}.") for each in known)
    ]
    assert lost == []
    assert SCHEMAS.keys() >= BESIDE_OUTPUT | COMMON


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_legal_and_leaves_nothing_open(name: str) -> None:
    schema = SCHEMAS[name]
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == Draft202012Validator.META_SCHEMA["$id"]
    assert schema["title"]
    assert schema["description"]
    for path, each in objects(schema):
        where = f"{name}{path}"
        names = each["properties"].keys()
        if (name, path) not in _OPEN:
            assert each["additionalProperties"] is False, where
        if name not in ("pk-console-producer.input", "pk-apply.export"):
            optional = names - set(each["required"])
            allowed = _LATER_KEYS.get(name, set()) if not path else set()
            assert optional <= allowed or name == "pk-verifiable-consumer", where
        for key, inner in each["properties"].items():
            ours = re.fullmatch(r"[a-z][a-z0-9_.]*", key) or key in _KAFKAS_NAMES | _FIELDS_OF_DECLARATIONS
            assert ours, f"{where}: {key}"
            described = inner.get("description") or inner.get("enum") or "$ref" in str(inner.get("items"))
            assert described, f"{where}: {key} is not described"


def test_the_schema_of_dumps_has_every_kind_of_row() -> None:
    kinds = {
        each["properties"]["kind"]["enum"][0]: tuple(each["properties"])
        for each in SCHEMAS["pk-dump-log"]["$defs"]["row"]["anyOf"]
    }
    assert kinds == {kind: ("file", "kind", *fields) for kind, fields in FIELDS.items()}
