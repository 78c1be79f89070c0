"""The flags that commands share, and what they come to: the settings of a client, the format of an answer."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click

import pkafka
from pkafka.cli.kit import output
from pkafka.cli.kit.actions import Actions
from pkafka.cli.kit.exit_status import ExitStatus, compat_39
from pkafka.cli.kit.gathering import in_the_place_of
from pkafka.cli.kit.kafka_command import HELP_FLAGS, ErrorText, KafkaCommand, asked_action
from pkafka.cli.kit.output import OutputFormat, View, show
from pkafka.java.numbers import parse_long

if TYPE_CHECKING:
    from pkafka.cli.kit.client_settings import Settings
    from pkafka.clients.admin import Admin
    from pkafka.clients.admin.connected import ConnectedAdmin
    from pkafka.clients.admin.topics import TopicsClient
    from pkafka.clients.config import ClientConfig

A = TypeVar("A", bound="ConnectedAdmin")
F = TypeVar("F", bound=Callable[..., Any])

TIMEOUT_MS: Final = 10_000
_FORMS: Final = tuple(form for form in OutputFormat if form is not OutputFormat.PROMETHEUS)
_PROFILE: Final = f"{__name__}.profile"
_SHOW_CONFIG: Final = f"{__name__}.show_config"
_OUTPUT: Final = f"{__name__}.output"
_OUTPUT_HELP: Final = "Format of the answer; default: Kafka's text in a pipe, a table on a terminal."
_DURATION_MS_MAX: Final = 2**31 - 1
_VERSION_HELP: Final = "Print the version of Kafka that this is compatible with."


class Common(NamedTuple):
    """The values of the shared flags."""

    bootstrap_server: str | None
    command_config: str | None
    output: OutputFormat | None
    timeout_ms: int

    def properties(self) -> "Settings":
        """The client's configuration: flag over environment over file over profile over default (KIP-1137).

        Raises:
            ConfigError: a file cannot be read.
            click.UsageError: no flag, file or variable names a broker.
        """
        values = client_properties(self.command_config, self.bootstrap_server)
        require_brokers(values)
        return values

    def admin_properties(self) -> "Settings":
        """As :meth:`properties`, with every time-out of the client within ``--timeout``."""
        values = self.properties()
        values.setdefault("client.id", "pkafka-admin")
        values.setdefault("default.api.timeout.ms", self.timeout_ms)
        values.setdefault("request.timeout.ms", self.timeout_ms)
        values.setdefault("socket.connection.setup.timeout.ms", self.timeout_ms)
        values.setdefault("socket.connection.setup.timeout.max.ms", self.timeout_ms)
        return values

    def admin(self) -> "AbstractContextManager[Admin]":
        """An admin client for the length of a ``with`` block; gives up at once where no broker listens."""
        return self._connected(_admin)

    def topics(self) -> "AbstractContextManager[TopicsClient]":
        """As :meth:`admin`, for topics alone, which is there sooner."""
        return self._connected(_topics)

    @contextmanager
    def _connected(self, kind: "Callable[[], type[A]]") -> "Iterator[A]":
        properties = self.admin_properties()
        settle(properties, _client_config)
        with kind()(properties, fail_fast=True) as admin:
            yield admin

    def show(self, view: View) -> None:
        """Print a view in the format asked for."""
        show(view, self.output, _promised_columns)


def command(
    name: str,
    *,
    error_text: ErrorText | None = None,
    kafka_failure: int = 1,
    greedy: tuple[str, ...] = (),
    argparse4j: bool = False,
    actions: Actions | None = None,
    version: Callable[[], None] | None = None,
    version_help: str | None = None,
) -> Callable[[F], KafkaCommand]:
    """Make a function a pk-* command with ``--version``, ``--help`` and ``--debug``.

    Args:
        error_text, kafka_failure, greedy, argparse4j, actions: see :class:`KafkaCommand`.
        version, version_help: what ``--version`` does and says of itself, if not what the tools of Kafka 3.9 do.
    """

    def decorate(function: F) -> KafkaCommand:
        settings = {"help_option_names": HELP_FLAGS, "max_content_width": 110}
        made = click.command(name, cls=KafkaCommand, context_settings=settings)(
            _version(debug_option(function), version or _show_version, version_help or _VERSION_HELP)
        )
        made.error_text = error_text
        made.kafka_failure = kafka_failure
        made.greedy = greedy
        made.argparse4j = argparse4j
        made.actions = actions
        return made

    return decorate


def connection_options(function: F) -> F:
    """Add the flags of every command that talks to a cluster; they arrive as one ``common: Common``."""
    return _connection(function, output_option)


def metered_connection_options(function: F) -> F:
    """As :func:`connection_options`, of a command that has gauges for Prometheus."""
    return _connection(
        function, _output_option(OutputFormat, f"{_OUTPUT_HELP} Prometheus: only of --describe.")
    )


def streaming_connection_options(function: F) -> F:
    """As :func:`connection_options`, of a command that prints while it looks."""
    return _connection(function, stream_output_option)


def _connection(function: F, output: Callable[[F], F]) -> F:
    return bootstrap_option(
        click.option("--command-config", metavar="FILE", help="Properties file for the client.")(
            timeout_option(output(_gather(function)))
        )
    )


def bootstrap_option(function: F) -> F:
    """Add what says which cluster is meant: ``--bootstrap-server`` and ``--profile``; and ``--show-config``."""
    return click.option("--bootstrap-server", metavar="HOST:PORT,...", help="Brokers to begin with.")(
        profile_option(function)
    )


def profile_option(function: F) -> F:
    """Add ``--profile`` and ``--show-config``, of a command that names brokers in a way of its own."""

    def keep(context: click.Context, parameter: click.Parameter, value: object) -> None:
        context.meta[f"{__name__}.{parameter.name}"] = value

    return click.option(
        "--profile",
        metavar="NAME",
        expose_value=False,
        callback=keep,
        help="Settings by name, of .pkafka.toml.",
    )(
        click.option(
            "--show-config",
            is_flag=True,
            expose_value=False,
            callback=keep,
            help="Show the client's settings and where they come from; do nothing.",
        )(function)
    )


def output_option(function: F) -> F:
    """Add ``--output`` of a command that shows tables."""
    return _output_option(_FORMS, _OUTPUT_HELP)(function)


def text_output_option(function: F) -> F:
    """Add ``--output`` of a command whose text is what a terminal gets too."""
    return _output_option(_FORMS, "Format of the answer; default: Kafka's text.")(function)


def stream_output_option(function: F) -> F:
    """Add ``--output`` of a command that prints while it reads, which no table does."""
    forms = (OutputFormat.TEXT, OutputFormat.JSON, OutputFormat.JSONL)
    return _output_option(forms, "Format of what is shown; default: Kafka's text.")(function)


def _output_option(forms: Iterable[OutputFormat], text: str) -> Callable[[F], F]:
    def keep(context: click.Context, _: click.Parameter, value: str | None) -> str | None:
        context.meta[_OUTPUT] = value
        return value

    return click.option(
        "--output", type=click.Choice([form.value for form in forms]), callback=keep, help=text
    )


def version_option(function: F) -> F:
    """Add ``--version``, for what is not made by :func:`command`."""
    return _version(function, _show_version, _VERSION_HELP)


def short_version_option(function: F) -> F:
    """As :func:`version_option`, for a tool of Kafka's that takes ``-v`` too."""
    return _version(function, _show_version, _VERSION_HELP, "-v")


def debug_option(function: F) -> F:
    """Add ``--debug``, for what is not made by :func:`command`."""
    return click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of a failure.")(
        function
    )


def timeout_option(function: F) -> F:
    """Add ``--timeout``."""
    return click.option(
        "--timeout",
        default=str(TIMEOUT_MS),
        metavar="MS",
        help=f"Give up after this long: milliseconds, or like 5s, 2m. Default {TIMEOUT_MS}.",
    )(function)


def client_properties(file: object, servers: object, pairs: object = (), *, option: str = "") -> "Settings":
    """A client's configuration: flag over properties over environment over file over profile (KIP-1137).

    Args:
        file: the path of a properties file, or None.
        servers: what --bootstrap-server says, or None.
        pairs: ``key=value`` of the repeated flag ``option``.

    Raises:
        ConfigError: a file cannot be read, or the profile that is asked for is in none.
        click.UsageError: a pair has no ``=``.
    """
    from pkafka.cli.kit.client_settings import client_settings

    assert isinstance(pairs, tuple)
    return client_settings(
        profile=_asked().get(_PROFILE),
        file=None if file is None else str(file),
        pairs=parse_assignments(pairs, option=option),
        pairs_option=option,
        servers=None if servers is None else str(servers),
    )


def settle(properties: "Mapping[str, object]", kind: "Callable[[], type[ClientConfig]]") -> None:
    """Show the settings of a command's client, and do nothing else, where ``--show-config`` is given.

    Args:
        kind: brings the class of its configuration, which is imported only then.

    Raises:
        ConfigError: a value is wrong.
    """
    asked = _asked()
    if asked.get(_SHOW_CONFIG):
        from pkafka.cli.kit.client_settings import show_settings

        form = asked.get(_OUTPUT)
        show_settings(properties, kind(), OutputFormat(form) if form else None)
        raise click.exceptions.Exit(ExitStatus.OK)


def _promised_columns() -> Sequence[str]:
    """The columns of CSV that the schema of the command that runs promises."""
    from pkafka.cli import schemas

    context = click.get_current_context(silent=True)
    if context is None:
        return ()
    action = asked_action(context)
    words = [*context.command_path.split(), *([] if action is None else [action])]
    return schemas.csv_columns(".".join(words))


def _asked() -> dict[str, Any]:
    """The values of the flags that no command looks at itself."""
    context = click.get_current_context(silent=True)
    return {} if context is None else context.meta


def require_brokers(properties: Mapping[str, object]) -> None:
    """Refuse to go on when no flag, file or variable names a broker.

    Raises:
        click.UsageError: in Kafka's words.
    """
    if not properties.get("bootstrap.servers"):
        raise click.UsageError('Missing required argument "[bootstrap-server]"')


def parse_duration_ms(text: str, *, option: str = "timeout") -> int:
    """Milliseconds of ``1500``, ``500ms``, ``5s``, ``2m`` or ``1h``, up to 24 days as every time-out of Kafka's.

    Raises:
        click.UsageError: it is none of them.
    """
    factor = 1
    number = text
    for suffix, milliseconds in (("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)):
        if text.endswith(suffix):
            number, factor = text.removesuffix(suffix), milliseconds
            break
    try:
        amount = parse_long(number)
    except ValueError:
        amount = -1
    if not 0 <= amount * factor <= _DURATION_MS_MAX:
        raise click.UsageError(f"Cannot parse argument '{text}' of option {option}")
    return amount * factor


def parse_wait_s(text: str | None) -> float:
    """The seconds of ``--wait``; 0 without it.

    Raises:
        click.UsageError: it is no duration.
    """
    return parse_duration_ms(text, option="wait") / 1_000 if text else 0.0


def parse_assignments(items: Sequence[str], *, option: str) -> dict[str, str]:
    """Read repeated ``key=value`` arguments.

    Raises:
        click.UsageError: one has no ``=``.
    """
    values: dict[str, str] = {}
    for item in items:
        key, equals, value = item.partition("=")
        if not (equals or compat_39()) or not key.strip():  # Kafka's tools take the value for an empty one
            raise click.UsageError(f"{option} needs key=value, not {item!r}")
        values[key.strip()] = value
    return values


def require(values: Mapping[str, object], *names: str) -> None:
    """Refuse to go on when a flag is missing.

    Raises:
        click.UsageError: in Kafka's words.
    """
    for name in names:
        value = values.get(name.replace("-", "_"))
        if not value and (value is False or value != 0):
            raise click.UsageError(f'Missing required argument "[{name}]"')


def exclude(values: Mapping[str, object], used: str, *others: str) -> None:
    """Refuse flags that make no sense together.

    Raises:
        click.UsageError: in Kafka's words.
    """
    if not values.get(used.replace("-", "_")):
        return
    for name in others:
        if values.get(name.replace("-", "_")):
            raise click.UsageError(f'Option "[{used}]" can\'t be used with option "[{name}]"')


def _gather(function: F) -> F:
    def gathered(
        bootstrap_server: str | None,
        command_config: str | None,
        timeout: str,
        output: str | None,
        **others: Any,  # noqa: ANN401 - whatever flags the command has
    ) -> object:
        form = OutputFormat(output) if output else None
        common = Common(bootstrap_server, command_config, form, parse_duration_ms(timeout))
        return function(common=common, **others)

    return in_the_place_of(function, gathered)


def _version(function: F, show: Callable[[], None], text: str, *short: str) -> F:
    def show_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
        if value:
            show()
            ctx.exit(0)

    return click.option(
        "--version",
        *short,
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=show_version,
        help=text,
    )(function)


def _show_version() -> None:
    output.line(pkafka.KAFKA_VERSION)
    output.note(f"pkafka {pkafka.__version__}, compatible with Apache Kafka {pkafka.KAFKA_VERSION}")


def _admin() -> "type[Admin]":
    from pkafka.clients.admin import Admin

    return Admin


def _topics() -> "type[TopicsClient]":
    from pkafka.clients.admin.topics import TopicsClient

    return TopicsClient


def _client_config() -> "type[ClientConfig]":
    from pkafka.clients.config import ClientConfig

    return ClientConfig
