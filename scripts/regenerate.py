"""Writes the files that are made from the code: completions, man pages, the coverage of the protocol, JSON output.

``make regenerate`` runs it; tests/tidy/test_generated.py fails when a file is not what this would write.
"""

import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Final

import click

from pkafka import KAFKA_VERSION
from pkafka.cli import generate
from pkafka.protocol import registry
from pkafka.protocol.api import ApiKey
from pkafka.server.handlers import CONTROL_APIS, FRAME_APIS, MESSAGE_APIS
from scripts import json_output

ROOT: Final = Path(__file__).resolve().parent.parent
FOLDERS: Final = ("completions", "man")
"""Nothing else lies in these: a file that is not written any more is removed."""
COVERAGE: Final = "docs/protocol-coverage.md"
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
    made = {COVERAGE: protocol_coverage(), JSON_OUTPUT: json_output.page()}
    for name, command in commands():
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


def protocol_coverage() -> str:
    """A table of every request of the reference and whether a broker of pkafka serves it."""
    served = {*FRAME_APIS, *MESSAGE_APIS, *CONTROL_APIS}
    rows = []
    for key in ApiKey:
        name = "".join(word.capitalize() for word in key.name.split("_"))
        valid = registry.versions(key)
        versions = f"0-{valid[-1]}" if len(valid) > 1 else ("0" if valid else "none")
        rows.append(f"| {int(key)} | {name} | {versions} | {'yes' if key in served else 'no'} |")
    return "\n".join(
        [
            "# Coverage of the protocol",
            "",
            f"The requests of Apache Kafka {KAFKA_VERSION}, the versions that pkafka encodes and decodes, and whether",
            "a broker of pkafka serves them to clients. Every request that is served is served in all of its versions.",
            "KRaft's own requests and share groups have no versions here. Made by `make regenerate`.",
            "",
            f"{len(served)} of {len(rows)} requests are served.",
            "",
            "| key | request | versions | served |",
            "|---:|---|---|---|",
            *rows,
            "",
        ]
    )


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
