"""pk-dev: a throw-away broker in one word, for development, for scripts and for trying things out."""

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import click

from pkafka.cli.kit import output
from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.cli.kit.kafka_command import HELP_FLAGS, CommandError, CommandGroup
from pkafka.cli.kit.options import output_option, parse_assignments, text_output_option, version_option
from pkafka.cli.kit.output import OutputFormat, View, hint, note, show

if TYPE_CHECKING:
    from pkafka.tools.servers.dev_brokers import DevBroker, DevBrokers

F = TypeVar("F", bound=Callable[..., Any])

_COMMAND_NOT_FOUND = 127
_COMMAND_NOT_EXECUTABLE = 126
_PROTOCOLS = ("ssl", "sasl_plaintext", "sasl_ssl")
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@click.group("pk-dev", cls=CommandGroup, context_settings={"help_option_names": HELP_FLAGS})
@version_option
def main() -> None:
    """Throw-away brokers: real ones, in a temporary directory, on a free port.

    A script begins with eval "$(pk-dev up)" and ends with pk-dev down; or it is one command: pk-dev run CMD.
    """


def _broker_options(function: F) -> F:
    return click.option(
        "--workers",
        type=click.IntRange(1),
        metavar="N",
        help="Worker processes of each broker; as many as there are cores, shared among the brokers.",
    )(
        click.option(
            "--override",
            "overrides",
            multiple=True,
            metavar="KEY=VALUE",
            help="A key of server.properties.",
        )(function)
    )


def _default_name() -> str:
    from pkafka.tools.servers.dev_brokers import DEFAULT_NAME

    return DEFAULT_NAME


def _brokers() -> "DevBrokers":
    from pkafka.tools.servers.dev_brokers import DevBrokers, state_directory

    return DevBrokers(state_directory())


def _name_option(function: F) -> F:
    return click.option(
        "--name", default=_default_name, metavar="NAME", help="The broker's name, where several run at once."
    )(function)


def _settings(workers: int | None, overrides: tuple[str, ...]) -> Mapping[str, object]:
    settings: dict[str, object] = {} if workers is None else {"pkafka.workers": workers}
    return {**settings, **parse_assignments(overrides, option="--override")}


@main.command("up")
@_name_option
@click.option(
    "--brokers",
    "count",
    type=click.IntRange(1, 99),
    default=1,
    metavar="N",
    help="How many; more than one share a ZooKeeper that is started with them, and copy what they store.",
)
@click.option(
    "--security",
    type=click.Choice(_PROTOCOLS, case_sensitive=False),
    help=(
        "With certificates, users and ACLs: admin may do everything, alice and bob nothing yet; there are files for "
        "clients of each."
    ),
)
@click.option(
    "--users",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="FILE",
    help="With sasl_*: lines NAME=PASSWORD, for users beside these three or with passwords that are not random.",
)
@_broker_options
@text_output_option
def up(
    name: str,
    count: int,
    security: str | None,
    users: Path | None,
    workers: int | None,
    overrides: tuple[str, ...],
    output: str | None,
) -> None:
    """Start a broker, or a cluster, in the background and print BOOTSTRAP=host:port.

    With several brokers it prints ZOOKEEPER=host:port too, for pk-zookeeper-shell and other clients of ZooKeeper. With
    --security it prints CLIENT_PROPERTIES=FILE, for --command-config as admin; LIBRDKAFKA_CONF=FILE is for kcat -F. The
    files of other users lie in folders beside.
    """
    if users is not None and security is None:
        raise click.UsageError("--users goes with --security")
    from pkafka.java.properties import load_properties

    started = _brokers().start(
        name,
        _settings(workers, overrides),
        brokers=count,
        security=security.upper() if security else None,
        passwords=load_properties(users) if users is not None else None,
    )
    lines = [f"BOOTSTRAP={started.bootstrap}"]
    if started.zookeeper is not None:
        lines.append(f"ZOOKEEPER={started.zookeeper}")
    file = started.client_properties
    if file is not None:
        lines += [f"CLIENT_PROPERTIES={file}", f"LIBRDKAFKA_CONF={file.with_name('librdkafka.conf')}"]
    _show([started], lines, output, default=OutputFormat.TEXT)
    if file is None:
        hint(f"Other pk-* commands talk to it after: export PK_BOOTSTRAP_SERVER={started.bootstrap}")
    else:
        hint(f"Try: pk-topics --bootstrap-server {started.bootstrap} --command-config {file} --list")
        hint(f"or: kcat -F {file.with_name('librdkafka.conf')} -L")
        hint(f"Other users have their files in {file.parent.parent}; pk-acls lets them do something.")
    hint(f"It ends with: pk-dev down{'' if name == _default_name() else f' --name {name}'}")


@main.command("down")
@_name_option
@click.option("--all", "every", is_flag=True, help="Every broker that pk-dev up started.")
@text_output_option
def down(name: str, every: bool, output: str | None) -> None:
    """Stop a broker and remove its data."""
    brokers = _brokers()
    names = [each.name for each in brokers.all()] if every else [name]
    ended = [broker for each in names if (broker := brokers.stop(each)) is not None]
    if not ended and not every:
        raise CommandError(f"no broker named {name} to end", hint="pk-dev status lists them")
    lines = [f"Ended {each.name} on {each.bootstrap}." for each in ended]
    _show(ended, lines, output, default=OutputFormat.TEXT, state="ended")


@main.command("status")
@click.option("--name", metavar="NAME", help="Only this broker; fails when it does not run.")
@output_option
def status(name: str | None, output: str | None) -> int:
    """List the brokers in the background."""
    brokers = _brokers()
    found = [each for each in brokers.all() if name in (None, each.name)]
    lines = ["\t".join(_facts(each)) for each in found]
    _show(found, lines, output)
    if not found:
        note("No broker runs." if name is None else f"No broker named {name} runs.")
    if name is None or any(each.is_running for each in found):
        return ExitStatus.OK
    return ExitStatus.FAILURE


@main.command("run", context_settings={"allow_interspersed_args": False})
@_broker_options
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="CMD...")
def run(workers: int | None, overrides: tuple[str, ...], command: tuple[str, ...]) -> int:
    """Run a command beside a broker of its own, and end with the command's status.

    The command finds the broker in the variables BOOTSTRAP and PK_BOOTSTRAP_SERVER; all pk-* commands look there.
    """
    from pkafka.tools.servers.local_broker import BrokerStartError, running_broker

    try:
        with (
            _Signals() as signals,
            running_broker(
                None, _settings(workers, overrides), own_session=True, ends_with_us=True
            ) as broker,
        ):
            code = _run_beside(command, broker.bootstrap, signals)
            broker.stop()
            return code
    except BrokerStartError as error:
        raise CommandError(error.reason) from None
    except subprocess.TimeoutExpired as error:
        raise CommandError(f"the broker did not end within {error.timeout:.0f} s and was killed") from None


def _run_beside(command: tuple[str, ...], bootstrap: str, signals: "_Signals") -> int:
    environment = {**os.environ, "BOOTSTRAP": bootstrap, "PK_BOOTSTRAP_SERVER": bootstrap}
    try:
        code = signals.run(command, environment)
    except FileNotFoundError:
        output.note(f"pk-dev run: {command[0]}: there is no such command")
        return _COMMAND_NOT_FOUND
    except OSError as error:
        output.note(f"pk-dev run: {command[0]}: {error.strerror}")
        return _COMMAND_NOT_EXECUTABLE
    return code if code >= 0 else 128 - code


class _Signals:
    """Makes sure that no signal leaves a broker behind: a running command gets signals, else they end pk-dev."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._starting = False
        self._early: list[int] = []
        """Signals that came while the command was being started."""
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Self:
        self._previous = {number: signal.signal(number, self._obey) for number in _SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def run(self, command: Sequence[str], environment: Mapping[str, str]) -> int:
        """Run the command, which gets the signals meanwhile, and give its exit code.

        Raises:
            OSError: it cannot be started.
        """
        self._starting = True
        try:
            self._process = subprocess.Popen(command, env=environment)
        finally:
            self._starting = False
        try:
            for number in self._early:
                self._process.send_signal(number)
            return self._process.wait()
        finally:
            self._process = None

    def _obey(self, number: int, _frame: FrameType | None) -> None:
        if self._process is None and not self._starting:
            raise SystemExit(128 + number)
        if self._process is None:
            # It may run already, and would be left behind by an exception here.
            self._early.append(number)
        elif number != signal.SIGINT:  # a terminal sends Ctrl-C to the command itself
            self._process.send_signal(number)


def _state(broker: "DevBroker") -> str:
    dead = len(broker.dead)
    if not dead:
        return "running"
    return "dead" if dead == 1 + len(broker.others) else "degraded"


def _facts(broker: "DevBroker") -> list[str]:
    state = _state(broker)
    facts = [
        broker.name,
        broker.bootstrap,
        f"{state}: {', '.join(broker.dead)} ended" if state == "degraded" else state,
        f"pid {broker.pid}",
        str(broker.directory),
    ]
    if broker.zookeeper is not None:
        facts.append(f"zookeeper {broker.zookeeper}")
    return facts if broker.security is None else [*facts, broker.security]


def _show(
    brokers: "list[DevBroker]",
    lines: list[str],
    asked: str | None,
    *,
    default: OutputFormat | None = None,
    state: str | None = None,
) -> None:
    rows = [
        {
            "name": each.name,
            "pid": each.pid,
            "bootstrap": each.bootstrap,
            "directory": str(each.directory),
            "brokers": each.brokers,
            "zookeeper": each.zookeeper,
            "security": each.security,
            "client_properties": str(each.client_properties) if each.client_properties else None,
            "state": state or _state(each),
            "dead": [] if state else each.dead,
        }
        for each in brokers
    ]
    columns = ("name", "brokers", "bootstrap", "zookeeper", "state", "pid", "directory", "security")
    show(View("brokers", lines, rows, columns=columns), OutputFormat(asked) if asked else default)


if __name__ == "__main__":
    main()
