"""What commands print as JSON, as JSON Schema (draft 2020-12); docs/json-output.md is made of it.

A file a command, or a verb or action of it: ``pk-topics.describe.json`` is the document of ``--output json``. Its
``$defs/row`` is a line of ``--output jsonl``, and of ``--output csv`` too where there is no ``$defs/csv_row``, whose
keys are the columns. ``error.json`` is what all of them print in place of their own where they failed as a whole,
``show-config.json`` belongs to ``--show-config``.

These are promises: a key is added, but none is renamed, left out or given another meaning.
"""

import json
from collections.abc import Sequence
from importlib import resources
from typing import Any

SUFFIX = ".json"


def load() -> dict[str, dict[str, Any]]:
    """Every schema by its name, which is that of its file without the suffix."""
    return {
        each.name.removesuffix(SUFFIX): json.loads(each.read_text(encoding="utf-8"))
        for each in sorted(resources.files(__name__).iterdir(), key=lambda each: each.name)
        if each.name.endswith(SUFFIX)
    }


def csv_columns(command: str) -> Sequence[str]:
    """The columns of a command's CSV, which it may have to say before it knows a row.

    Args:
        command: with its verb or action behind a full stop.

    Returns:
        Nothing where the command has no table, or several, of which the rows would say which it is.
    """
    known = load()
    names = [each for each in known if each == command or each.startswith(f"{command}-")]
    if len(names) != 1:
        return []
    definitions = known[names[0]].get("$defs", {})
    row = definitions.get("csv_row", definitions.get("row", {}))
    return list(row.get("properties", ()))
