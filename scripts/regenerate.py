"""Writes the files that are made from the code: completions, man pages, the reference, JSON output.

``make regenerate`` runs it; tests/tidy/test_generated.py fails when a file is not what this would write.
"""

import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Final

import click

from pkafka.cli.completions import generate
from scripts import json_output, man_pages, reference

ROOT: Final = Path(__file__).resolve().parent.parent
FOLDERS: Final = ("completions", "man", reference.FOLDER)
"""Nothing else lies in these: a file that is not written any more is removed."""
JSON_OUTPUT: Final = "docs/json-output.md"


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every pk-* command that an installation has, by name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for name, target in sorted(project["scripts"].items()):
        module, _, attribute = target.partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command), target
        yield name, command


def files() -> dict[str, str]:
    """What every generated file has to hold, by path below the root."""
    every = dict(commands())
    made = {**reference.files(), **man_pages.files(every), JSON_OUTPUT: json_output.page()}
    for name, command in every.items():
        made[f"man/{name}.1"] = generate.man_page(name, command)
        made[f"completions/bash/{name}"] = generate.bash_completion(name, command)
        made[f"completions/zsh/_{name}"] = generate.zsh_completion(name, command)
        made[f"completions/fish/{name}.fish"] = generate.fish_completion(name, command)
    return made


def stale() -> list[Path]:
    """Files in the generated folders that nothing makes any more."""
    made = {ROOT / path for path in files()}
    return [
        path
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*"))
        if path.is_file() and path not in made
    ]


def main() -> int:
    """Write what differs and say what that was."""
    for relative, text in files().items():
        path = ROOT / relative
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            sys.stdout.write(f"wrote {relative}\n")
    for path in stale():
        path.unlink()
        sys.stdout.write(f"removed {path.relative_to(ROOT)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
