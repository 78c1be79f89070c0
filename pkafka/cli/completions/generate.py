"""Completions for bash, zsh and fish and man pages, made from the commands themselves.

The files are committed; ``scripts/regenerate.py`` writes them, and a test finds them out of date. Completions know
flags, verbs and fixed values; topics, groups, keys and profiles they get from ``pk-completions names`` while a person
types (:mod:`pkafka.cli.completions.live_names`).
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import click

from pkafka import KAFKA_VERSION, __version__
from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.cli.kit.kafka_command import HELP_FLAGS, KafkaCommand

STATUSES: Final = {
    ExitStatus.OK: "Success.",
    ExitStatus.FAILURE: "The cluster or the command refused; the line on standard error says why.",
    ExitStatus.USAGE: "Wrong flags or a bad configuration; nothing was done.",
    ExitStatus.UNREACHABLE: "No broker could be reached in time.",
    ExitStatus.AUTHENTICATION: "The cluster refused the user that asked.",
    ExitStatus.INTERRUPTED: "Ended by Ctrl-C.",
}
_STATUSES_OF: Final = {
    "pk-reassign-partitions": {ExitStatus.IN_PROGRESS: "With --verify: what is not done yet is on the way."}
}
# What a shell asks for when the value of a flag is typed; keys are followed by their value.
_LIVE_NAMES: Final = {
    "--topic": "topics",
    "--topic-list": "topics",
    "--group": "groups",
    "--group-id": "groups",
    "--broker-list": "brokers",
    "--broker": "brokers",
    "--broker-id": "brokers",
    "--broker-logger": "brokers",
    "--transactional-id": "transactional-ids",
    "--user": "users",
    "--client": "clients",
    "--ip": "ips",
    "--entity-name": "entity-names",
    "--add-config": "config-keys=",
    "--delete-config": "config-keys",
    "--topic-config": "topic-keys=",
    "--profile": "profiles",
    "--config": "topic-keys=",
    "--override": "broker-keys=",
    "--producer-property": "producer-keys=",
    "--producer-props": "producer-keys=",
    "--consumer-property": "consumer-keys=",
}
_PLAIN_WORD: Final = re.compile(r"[a-z0-9][a-z0-9-]*")
_FILE_METAVARS: Final = frozenset({"FILE", "FILE,..."})


class Flag(NamedTuple):
    """One option, as a shell sees it."""

    names: list[str]
    help: str
    value: str | None
    """What the manual calls its value; None for a switch."""
    choices: list[str]
    is_file: bool
    repeats: bool
    live_names: str | None
    """Of which kind of ``pk-completions names`` its value is."""

    @property
    def is_followed(self) -> bool:
        """Whether a value goes on behind what is completed."""
        return self.live_names is not None and self.live_names.endswith("=")


def flags_of(command: click.Command) -> list[Flag]:
    """The visible options of a command, ``--help`` included."""
    context = _context(command)
    return [_flag(each, context) for each in command.get_params(context) if _is_shown(each)]


def verbs_of(command: click.Command) -> dict[str, click.Command]:
    """The verbs of a group by name; none for a plain command."""
    return dict(sorted(command.commands.items())) if isinstance(command, click.Group) else {}


def _context(command: click.Command) -> click.Context:
    return click.Context(command, help_option_names=HELP_FLAGS)


def _is_shown(parameter: click.Parameter) -> bool:
    return isinstance(parameter, click.Option) and not parameter.hidden


def _flag(option: click.Parameter, context: click.Context) -> Flag:
    assert isinstance(option, click.Option)
    value = None if option.is_flag or option.count else option.make_metavar(context)
    choices = [str(each) for each in option.type.choices] if isinstance(option.type, click.Choice) else []
    if not choices and value is not None and "|" in value:  # words among them that mean themselves
        choices = [each for each in value.split("|") if _PLAIN_WORD.fullmatch(each)]
    is_file = isinstance(option.type, click.Path) or value in _FILE_METAVARS
    names = sorted([*option.opts, *option.secondary_opts], key=lambda each: (len(each), each))
    live = next((_LIVE_NAMES[each] for each in names if each in _LIVE_NAMES), None)
    if value is not None and "HOST" in value:
        live = None  # brokers by their addresses
    return Flag(names, " ".join((option.help or "").split()), value, choices, is_file, option.multiple, live)


def _takes_files(command: click.Command) -> bool:
    return any(isinstance(each, click.Argument) for each in command.params)


# -- man pages ---------------------------------------------------------------------------------------------


def man_page(name: str, command: click.Command) -> str:
    """The page of a command in section 1, as groff and mandoc read it."""
    lines = [
        f'.TH {name.upper()} 1 "" "pkafka {__version__}" "pkafka"',
        ".SH NAME",
        f"{roff(name)} \\- {roff(summary(command))}",
        ".SH SYNOPSIS",
        *_synopsis(name, command),
        ".SH DESCRIPTION",
        *_paragraphs(_help(command)),
    ]
    verbs = verbs_of(command)
    if verbs:
        lines.append(".SH COMMANDS")
    for verb, each in verbs.items():
        lines += [f".SS {roff(f'{name} {verb}')}", *_paragraphs(_help(each)), *_option_items(each)]
    lines += [".SH OPTIONS", *_option_items(command)]
    lines += _examples(name, command)
    lines += [".SH EXIT STATUS"]
    for status, text in sorted({**STATUSES, **_STATUSES_OF.get(name, {})}.items()):
        lines += [".TP", f".B {int(status)}", roff(text)]
    lines += [
        ".SH ENVIRONMENT",
        ".TP",
        ".B PK_BOOTSTRAP_SERVER",
        "Brokers to begin with, where no flag names any.",
        ".TP",
        ".B PK_COMPAT",
        roff(f"With the value 3.9 the exit statuses are those of Apache Kafka {KAFKA_VERSION}."),
        ".SH SEE ALSO",
        ".BR pkafka (7)",
    ]
    return "\n".join(lines) + "\n"


def _help(command: click.Command) -> str:
    paragraphs = re.split(r"\n\s*\n", (command.help or "").strip())
    return "\n\n".join(" ".join(each.split()) for each in paragraphs)


def summary(command: click.Command) -> str:
    """The first sentence of a command's help, without its full stop."""
    return _help(command).split("\n\n")[0].rstrip(".")


def _synopsis(name: str, command: click.Command) -> Iterator[str]:
    for verb, each in (verbs_of(command) or {"": command}).items():
        pieces = " ".join(each.collect_usage_pieces(_context(each)))
        yield f".B {roff(f'{name} {verb}'.strip())}"
        yield f"{roff(pieces)}"
        yield ".br"


def _paragraphs(text: str) -> Iterator[str]:
    for index, each in enumerate(text.split("\n\n")):
        if index:
            yield ".PP"
        yield roff(each)


def _option_items(command: click.Command) -> Iterator[str]:
    for flag in flags_of(command):
        names = ", ".join(f"\\fB{roff(each)}\\fR" for each in flag.names)
        yield ".TP"
        yield names + (f" \\fI{roff(flag.value)}\\fR" if flag.value else "")
        yield roff(flag.help or "Not documented.")


def _examples(name: str, command: click.Command) -> Iterator[str]:
    """One of each action, with what it does."""
    actions = command.actions if isinstance(command, KafkaCommand) else None
    if actions is None:
        return
    yield ".SH EXAMPLES"
    helps = {each: flag.help for flag in flags_of(command) for each in flag.names}
    for action in actions.examples:
        yield from (".PP", roff(helps[f"--{action}"]), ".PP", ".RS 4", ".EX")
        yield from (roff(actions.example(name, action)), ".EE", ".RE")


def roff(text: str) -> str:
    """Text as a line of a man page."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped[:1] in (".", "'") else escaped


# -- bash --------------------------------------------------------------------------------------------------


def bash_completion(name: str, command: click.Command) -> str:
    """A script for bash-completion; works without that package too."""
    function = "_" + name.replace("-", "_")
    verbs = verbs_of(command)
    lines = [
        f"# Completion of {name} for bash; made by scripts/regenerate.py.",
        f"{function}() {{",
        "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words",
        # bash breaks words at = and :, so --topic=a is three of them, and host:port too.
        '    read -ra words <<<"${COMP_LINE:-${COMP_WORDS[*]}}"',
        "    if [[ $cur == = ]]; then",
        "        cur=",
        "    elif [[ $prev == = ]] && ((COMP_CWORD > 2)); then",
        "        prev=${COMP_WORDS[COMP_CWORD-2]}",
        "    fi",
        "    COMPREPLY=()",
    ]
    if verbs:
        lines += ["    if ((COMP_CWORD > 1)); then", "        case ${COMP_WORDS[1]} in"]
        for verb, each in verbs.items():
            lines += [
                f"        {verb})",
                *_bash_words(each, " " * 12),
                "            return",
                "            ;;",
            ]
        lines += ["        esac", "    fi"]
    lines += [*_bash_words(command, "    ", verbs), "}", f"complete -o default -F {function} {name}"]
    return "\n".join(lines) + "\n"


def _bash_words(command: click.Command, indent: str, verbs: Iterable[str] = ()) -> Iterator[str]:
    flags = flags_of(command)
    with_value = [flag for flag in flags if flag.value is not None]
    if with_value:
        yield f"{indent}case $prev in"
        for flag in with_value:
            yield f"{indent}{'|'.join(flag.names)})"
            if flag.choices:
                yield f'{indent}    COMPREPLY=($(compgen -W "{" ".join(flag.choices)}" -- "$cur"))'
            elif not flag.is_file:
                yield f"{indent}    compopt +o default 2>/dev/null"
            if flag.live_names is not None:
                words = f'$(pk-completions names {flag.live_names} "${{words[@]}}" 2>/dev/null)'
                if flag.is_followed:
                    yield f"{indent}    compopt -o nospace 2>/dev/null"
                yield f'{indent}    COMPREPLY=($(compgen -W "{words}" -- "$cur"))'
            yield f"{indent}    return"
            yield f"{indent}    ;;"
        yield f"{indent}esac"
    words = " ".join([*verbs, *(each for flag in flags for each in flag.names)])
    condition = "" if not _takes_files(command) else "[[ $cur == -* ]] && "
    yield f'{indent}{condition}COMPREPLY=($(compgen -W "{words}" -- "$cur"))'


# -- zsh ---------------------------------------------------------------------------------------------------


def zsh_completion(name: str, command: click.Command) -> str:
    """A function for a folder of zsh's fpath."""
    verbs = verbs_of(command)
    lines = [f"#compdef {name}", f"# Completion of {name} for zsh; made by scripts/regenerate.py."]
    if verbs:
        described = " ".join(f"'{verb}:{_zsh(summary(each))}'" for verb, each in verbs.items())
        lines += [
            "if ((CURRENT == 2)); then",
            f"    local -a verbs=({described})",
            "    _describe verb verbs",
        ]
        lines += [f"    _arguments {_zsh_specs(command)}", "    return", "fi"]
        lines += ["local verb=$words[2]", "shift words", "((CURRENT--))", "case $verb in"]
        for verb, each in verbs.items():
            lines += [f"    {verb})", f"        _arguments {_zsh_specs(each)}", "        ;;"]
        lines.append("esac")
    else:
        lines.append(f"_arguments {_zsh_specs(command)}")
    return "\n".join(lines) + "\n"


def _zsh_specs(command: click.Command) -> str:
    specs = []
    for flag in flags_of(command):
        action = f"({' '.join(flag.choices)})" if flag.choices else ("_files" if flag.is_file else " ")
        if flag.live_names is not None:
            suffix = '-S "" ' if flag.is_followed else ""
            live = f'pk-completions names {flag.live_names} "${{words[@]}}" 2>/dev/null'
            action = f'{{compadd {suffix}-- "${{(@f)$({live})}}"}}'
        value = "" if flag.value is None else f":{_zsh(flag.value)}:{action}"
        exclusive = "*" if flag.repeats else f"({' '.join(flag.names)})"
        specs += [f"'{exclusive}{each}[{_zsh(flag.help)}]{value}'" for each in flag.names]
    if _takes_files(command):
        specs.append("'*:file:_files'")
    return " \\\n    ".join(specs)


def _zsh(text: str) -> str:
    escaped = re.sub(r"([\[\]:\\])", r"\\\1", text)
    return escaped.replace("'", "'\\''")


# -- fish --------------------------------------------------------------------------------------------------


def fish_completion(name: str, command: click.Command) -> str:
    """A file for fish's vendor_completions.d."""
    verbs = verbs_of(command)
    lines = [f"# Completion of {name} for fish; made by scripts/regenerate.py."]
    if verbs or not _takes_files(command):
        lines.append(f"complete -c {name} -f")
    for verb, each in verbs.items():
        lines.append(f"complete -c {name} -n __fish_use_subcommand -a {verb} -d {_fish(summary(each))}")
        lines += _fish_flags(f"{name} -n '__fish_seen_subcommand_from {verb}'", each)
    lines += _fish_flags(name, command)
    return "\n".join(lines) + "\n"


def _fish_flags(prefix: str, command: click.Command) -> Iterator[str]:
    for flag in flags_of(command):
        names = " ".join(
            f"-l {each.removeprefix('--')}" if each.startswith("--") else f"-s {each.removeprefix('-')}"
            for each in flag.names
        )
        value = ""
        if flag.choices:
            value = f" -x -a {_fish(' '.join(flag.choices))}"
        elif flag.live_names is not None:
            live = f"pk-completions names {flag.live_names} (commandline -opc) 2>/dev/null"
            value = f" -x -a '({live})'"
        elif flag.value is not None:
            value = " -r -F" if flag.is_file else " -x"
        yield f"complete -c {prefix} {names}{value} -d {_fish(flag.help)}"


def _fish(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
