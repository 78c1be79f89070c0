"""pk-completions: what bash, zsh and fish need to complete the pk-* commands."""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import click

from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.cli.kit.kafka_command import HELP_FLAGS, CommandError, CommandGroup
from pkafka.cli.kit.options import version_option
from pkafka.cli.kit.output import line, note

_SHELLS: Final = ("bash", "zsh", "fish")
_shell_option: Final = click.option(
    "--shell", type=click.Choice(_SHELLS), help="Default: the one that SHELL names."
)


class _Place(NamedTuple):
    """Where a shell looks for the completions of one user.

    Args:
        folder: below the variable's value, or below the home folder where it is not set.
        file: how the file of a command is called there.
        remark: what the user has to do once, if anything.
    """

    variable: str
    default: str
    folder: str
    file: str
    remark: str


_PLACES: Final[Mapping[str, _Place]] = {
    "bash": _Place(
        "XDG_DATA_HOME",
        ".local/share",
        "bash-completion/completions",
        "{}",
        "New shells have them, where the package bash-completion is installed.",
    ),
    "zsh": _Place(
        "XDG_DATA_HOME",
        ".local/share",
        "zsh/site-functions",
        "_{}",
        "Put into ~/.zshrc, before compinit, once: fpath=({folder} $fpath)",
    ),
    "fish": _Place("XDG_CONFIG_HOME", ".config", "fish/completions", "{}.fish", "New shells have them."),
}


@click.group("pk-completions", cls=CommandGroup, context_settings={"help_option_names": HELP_FLAGS})
@version_option
def main() -> None:
    """Completions of all pk-* commands for bash, zsh and fish: flags, values, topics, groups, keys."""


@main.command("install")
@_shell_option
@click.option("--dry-run", is_flag=True, help="Say which files would be written, and write none.")
def install(shell: str | None, dry_run: bool) -> None:
    """Write the completions where this user's shell finds them."""
    chosen = _chosen(shell)
    folder = _folder(chosen)
    written = 0
    for name, command in _commands():
        path = folder / _PLACES[chosen].file.format(name)
        if dry_run:
            line(f"Would write {path}")
            continue
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(_made(chosen, name, command), encoding="utf-8")
        written += 1
    if not dry_run:
        line(f"Wrote the completions of {written} commands for {chosen} to {folder}.")
        line(_PLACES[chosen].remark.format(folder=folder))


@main.command("uninstall")
@_shell_option
def uninstall(shell: str | None) -> None:
    """Remove what install wrote."""
    chosen = _chosen(shell)
    paths = [_folder(chosen) / _PLACES[chosen].file.format(name) for name, _ in _commands()]
    there = [path for path in paths if path.exists()]
    for path in there:
        path.unlink()
    line(f"Removed the completions of {len(there)} commands for {chosen}.")


@main.command("show")
@click.argument("name", metavar="COMMAND")
@_shell_option
def show(name: str, shell: str | None) -> None:
    """Print the completion of one command."""
    commands = dict(_commands())
    if name not in commands:
        raise CommandError(f"there is no command {name}", status=ExitStatus.USAGE)
    line(_made(_chosen(shell), name, commands[name]).rstrip("\n"))


@main.command(
    "names", hidden=True, context_settings={"ignore_unknown_options": True, "help_option_names": []}
)
@click.argument("kind")
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def names(kind: str, words: tuple[str, ...]) -> None:
    """Print the names that a shell offers, one a line, with = behind each where KIND ends with it."""
    from pkafka.cli.completions.live_names import names as names_of

    plain = kind.removesuffix("=")
    for name in names_of(plain, words):
        line(name + kind[len(plain) :])


def _chosen(shell: str | None) -> str:
    found = shell or os.path.basename(os.environ.get("SHELL", ""))
    if found not in _SHELLS:
        raise click.UsageError(f"--shell is needed: one of {', '.join(_SHELLS)}")
    return found


def _folder(shell: str) -> Path:
    place = _PLACES[shell]
    base = os.environ.get(place.variable)
    return (Path(base) if base else Path.home() / place.default) / place.folder


def _made(shell: str, name: str, command: click.Command) -> str:
    from pkafka.cli.completions import generate

    make: Mapping[str, Callable[[str, click.Command], str]] = {
        "bash": generate.bash_completion,
        "zsh": generate.zsh_completion,
        "fish": generate.fish_completion,
    }
    return make[shell](name, command)


def _commands() -> Iterator[tuple[str, click.Command]]:
    """The commands of this installation by name."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        entries = distribution("pkafka").entry_points
    except PackageNotFoundError as error:
        raise CommandError(
            "pkafka is not installed, so nothing says which commands there are", hint="pip install pkafka"
        ) from error
    for entry in sorted(entries, key=lambda each: each.name):
        if entry.group == "console_scripts":
            command = entry.load()
            if isinstance(command, click.Command):
                yield entry.name, command
            else:
                note(f"pk-completions: {entry.name} is left out: it is no command")
