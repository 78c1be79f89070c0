"""docs/json-output.md: the schemas of JSON output in a form that a person reads."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pkafka.cli import schemas

Schema = Mapping[str, Any]

_FAILURE: Final = "error.json#/$defs/failure"
_ABOUT: Final = """\
# JSON output

What commands print with `--output json`, key by key. Every document has a JSON Schema (draft 2020-12) in
`pkafka/cli/schemas`, which an installation has too; tests compare what commands print with it, so nothing else comes
out. Made by `make regenerate`.

```
$ python -c 'import pkafka.cli.schemas as s; print(s.__path__[0])'
$ pk-topics --describe --output json | check-jsonschema --schemafile .../pk-topics.describe.json -
```

- These are promises: keys may be added, but none is renamed, left out or given another meaning.
- A run prints one document, whatever happens. Where it failed as a whole, that is the one under [Errors](#errors) in
  place of its own; where a part failed, the rows say which (`error`) and the command ends with 1. A dry run prints the
  same keys as a real one.
- With `--output jsonl` the rows come line by line, without the document around them; an error of the whole run is the
  last line. With `--output csv` a row has the same keys as columns, or those that are listed; nothing is an empty cell,
  a list has commas between, an error is `NAME: message`.
- Every key is always there if nothing else is said; what is not there is null. Ids, offsets and sizes are numbers.
  Names say their unit (`_ms`, `_bytes`, `_per_s`, `mib` for 1024 * 1024 bytes); `timestamp` is Kafka's, in milliseconds
  since the epoch. Other moments are ISO 8601 with a zone.
"""


def page() -> str:
    """The whole file."""
    known = schemas.load()
    error, settings = known.pop("error"), known.pop("show-config")
    parts = [_ABOUT, "## Errors\n", error["description"] + "\n", *_table(error, error)]
    parts += ["A row's `error` is such an object, without one around it.\n"]
    parts += ["## --show-config\n", settings["description"] + "\n", *_table(settings, settings)]
    command = ""
    for name, schema in sorted(known.items(), key=lambda each: each[0].split(".")):
        if name.partition(".")[0] != command:
            command = name.partition(".")[0]
            parts.append(f"## {command}\n")
        if schema["title"] != command:
            parts.append(f"### {schema['title']}\n")
        parts += [schema["description"] + "\n", *_table(schema, schema), *_columns(schema)]
    return "\n".join(parts)


def keys(schema: Schema) -> Iterator[tuple[str, str, str]]:
    """Every key of a document, those of objects inside with their path: its name, its type and what it means."""
    for row in _rows(schema, schema, ""):
        name, kind, meaning = (cell.strip().replace("`", "") for cell in row.strip("| ").split(" | "))
        yield name, kind, meaning


def _table(schema: Schema, root: Schema) -> Iterator[str]:
    """A table of a document; one for each form of it, and of its rows, where there are several."""
    for form in schema.get("anyOf", [schema]):
        yield from _one_table("", form, root)
        for key, each in form["properties"].items():
            for row in _forms(_resolved(each.get("items", {}), root), root):
                yield from _one_table(f"{key}[].", row, root)
    line = root.get("$defs", {}).get("row")
    if line is not None and "anyOf" not in line and "#/$defs/row" not in str(root.get("properties")):
        yield "A line of jsonl:\n"
        yield from _one_table("", line, root)


def _one_table(path: str, form: Schema, root: Schema) -> Iterator[str]:
    values = [form["properties"].get(key, {}).get("enum", ()) for key in ("kind", "name")]
    if path or any(len(each) == 1 for each in values):
        word = next((f"`{each[0]}`" for each in values if len(each) == 1), f"`{path.removesuffix('.')}`")
        yield f"{word}: {form['description']}\n" if "description" in form else f"{word}:\n"
    yield from ["| key | type | meaning |", "|---|---|---|", *_rows(form, root, path), ""]


def _forms(schema: Schema, root: Schema) -> Iterator[Schema]:
    """The forms that an object can have, where these are more than one."""
    for each in schema.get("anyOf", ()):
        found = _resolved(each, root)
        if "properties" in found:
            yield found


def _rows(schema: Schema, root: Schema, path: str) -> Iterator[str]:
    """A line for each key, those of objects inside below it."""
    for key, each in schema["properties"].items():
        where = f"{path}{key}"
        yield f"| `{where}` | {_type(each, root)} | {_cell(_meaning(each, root))} |"
        yield from _inside(each, root, where)


def _inside(schema: Schema, root: Schema, path: str) -> Iterator[str]:
    found = _resolved(schema, root)
    if "items" in found:
        items = _resolved(found["items"], root)
        if "properties" in items:
            yield from _rows(items, root, f"{path}[].")
    elif "properties" in found:
        yield from _rows(found, root, f"{path}.")
    elif isinstance(found.get("additionalProperties"), dict):
        inner = _resolved(found["additionalProperties"], root)
        if "properties" in inner:
            yield from _rows(inner, root, f"{path}.*.")


def _columns(schema: Schema) -> Iterator[str]:
    row = schema.get("$defs", {}).get("csv_row")
    if row is not None:
        yield "Columns of csv: " + ", ".join(f"`{name}`" for name in row["properties"]) + ".\n"


def _resolved(schema: Schema, root: Schema) -> Schema:
    """A schema, or what it points to in the same file."""
    reference = schema.get("$ref", "")
    if not reference.startswith("#/$defs/"):
        return schema
    found: Schema = root["$defs"][reference.removeprefix("#/$defs/")]
    return found


def _type(schema: Schema, root: Schema) -> str:
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_type(each, root) for each in schema["anyOf"]))
    if schema.get("$ref") == _FAILURE:
        return "[error](#errors)"
    found = _resolved(schema, root)
    if found is not schema:
        return _type(found, root)
    if "enum" in found:
        return " or ".join("null" if each is None else f"`{each}`" for each in found["enum"])
    if "type" not in found:
        return "any"
    types = [found["type"]] if isinstance(found["type"], str) else found["type"]
    return " or ".join(_of_items(each, found, root) for each in types)


def _of_items(name: str, schema: Schema, root: Schema) -> str:
    if name == "array":
        inner = _type(schema["items"], root)
        return f"array of {inner}" if " or " not in inner else "array"
    if schema.get("format") == "date-time":
        return "ISO 8601"
    if "base64" in schema.get("properties", ()):
        return '`{"base64": ...}`'
    return name


def _meaning(schema: Schema, root: Schema) -> str:
    text: str = schema.get("description") or _resolved(schema, root).get("description", "")
    return text or ("The rows." if schema.get("items") == {"$ref": "#/$defs/row"} else "")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
