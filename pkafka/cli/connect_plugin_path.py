"""pk-connect-plugin-path: which plug-ins a worker of Connect finds, as connect-plugin-path.sh."""

from typing import TYPE_CHECKING, Final

import click

from pkafka.cli.kit import output
from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.cli.kit.kafka_command import HELP_FLAGS, CommandError
from pkafka.cli.kit.options import debug_option, output_option, version_option
from pkafka.cli.kit.output import OutputFormat, View
from pkafka.cli.kit.subcommands import PrefixGroup

if TYPE_CHECKING:
    from pkafka.connect.plugin_path import Found

_COLUMNS: Final = (
    ("pluginName", "name"),
    ("firstAlias", "first_alias"),
    ("secondAlias", "second_alias"),
    ("pluginVersion", "version"),
    ("pluginType", "type"),
    ("isLoadable", "loadable"),
    ("hasManifest", "has_manifest"),
    ("pluginLocation", "location"),
)
_NONE: Final = "N/A"


@click.group("pk-connect-plugin-path", cls=PrefixGroup, context_settings={"help_option_names": HELP_FLAGS})
@debug_option
@version_option
def main() -> None:
    """Plug-ins of Kafka Connect: connectors, converters, transforms and predicates of installed packages."""


@main.command("list")
@click.option(
    "--plugin-location", "plugin_locations", multiple=True, metavar="DIR", help="A directory with packages."
)
@click.option(
    "--plugin-path",
    "plugin_paths",
    multiple=True,
    metavar="DIR,...",
    help="Directories that have such directories.",
)
@click.option(
    "--worker-config",
    "worker_configs",
    multiple=True,
    metavar="FILE",
    help="A worker's properties: its plugin.path.",
)
@output_option
def list_plugins(
    plugin_locations: tuple[str, ...],
    plugin_paths: tuple[str, ...],
    worker_configs: tuple[str, ...],
    output: str | None,
) -> int:
    """List plug-ins, with their aliases, versions and types, and whether they can be imported.

    Without a flag: those that ship with pkafka, and those of all installed packages. A directory with packages is what
    pip install --target DIR fills.
    """
    from pathlib import Path

    from pkafka.connect.plugin_path import announced, locations, path_of, use
    from pkafka.java.properties import load_properties

    configured = (*({"plugin.path": each} for each in plugin_paths), *map(load_properties, worker_configs))
    path = [directory for each in configured for directory in path_of(each)]
    wanted = [Path(each) for each in (*plugin_locations, *path)]
    for each in wanted:
        if not each.is_dir():
            raise CommandError(f"{each} is no directory", status=ExitStatus.USAGE)
    is_limited = bool(plugin_locations or plugin_paths or worker_configs)
    use(wanted)
    found = list(announced(locations(wanted) if is_limited else None))
    _show(found, OutputFormat(output) if output else None)
    return ExitStatus.OK


def _show(found: "list[Found]", form: OutputFormat | None) -> None:
    rows = [_row(each) for each in found]
    loadable = sum(each.plugin is not None for each in found)
    lines = [
        "\t".join(title for title, _ in _COLUMNS),
        *("\t".join(_cell(row[key]) for _, key in _COLUMNS) for row in rows),
        "",
        f"Total plugins:      \t{len(rows)}",
        f"Loadable plugins:   \t{loadable}",
        f"Compatible plugins: \t{loadable}",
    ]
    output.show(View("plugins", lines, rows), form)
    for each in found:
        if each.problem is not None:
            output.note(f"{each.name} of {each.location} cannot be used: {each.problem}")


def _row(found: "Found") -> dict[str, object]:
    plugin = found.plugin
    aliases = () if plugin is None else plugin.aliases
    return {
        "name": found.name,
        "first_alias": aliases[0] if aliases else None,
        "second_alias": aliases[1] if len(aliases) > 1 else None,
        "version": None if plugin is None else plugin.version,
        "type": None if plugin is None else plugin.type.value,
        "loadable": plugin is not None,
        "has_manifest": True,
        "location": found.location,
        "problem": found.problem,
    }


def _cell(value: object) -> str:
    if value is None:
        return _NONE
    return str(value).lower() if isinstance(value, bool) else str(value)


@main.command("sync-manifests")
@click.option("--plugin-location", multiple=True, metavar="DIR", help="As Kafka's tool takes it.")
@click.option("--plugin-path", multiple=True, metavar="DIR,...", help="Likewise.")
@click.option("--worker-config", multiple=True, metavar="FILE", help="Likewise.")
@click.option("--dry-run", is_flag=True, help="Likewise.")
@click.option("--keep-not-found", is_flag=True, help="Likewise.")
def sync_manifests(**_flags: object) -> None:
    """Refuse: packages of Python have no manifests to write; their entry points announce plug-ins."""
    raise CommandError(
        "There are no manifests to write: a Python package announces its plug-ins by entry points",
        hint="docs/connect.md, A connector of your own",
        status=ExitStatus.USAGE,
    )


if __name__ == "__main__":
    main()
