"""The flags that commands share, Kafka's habits of writing them, and what becomes of an error.

``KafkaCommand`` accepts what Kafka's parser (jopt-simple) accepts: single-dash long names, ``--opt=v``; a
single-valued flag given twice is refused. An error is one line that says what to do, never a traceback.
"""

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, TypeVar

import click

import pkafka
from pkafka.cli import output
from pkafka.cli.exit_status import ExitStatus, compat_39, effective
from pkafka.cli.output import Failure, OutputFormat, View, show
from pkafka.errors import ApiError, ConfigError, ErrorCode, PkafkaError

if TYPE_CHECKING:
    from pkafka.cli.client_settings import Settings
    from pkafka.clients.admin import Admin
    from pkafka.clients.config import ClientConfig

F = TypeVar("F", bound=Callable[..., Any])

TIMEOUT_MS: Final = 10_000
HELP_FLAGS: Final = ["--help", "-h"]
_NO_NUMBER: Final = re.compile(r"'(.*)' is not a valid (?:integer|float)", re.DOTALL)
_FORMS: Final = tuple(form for form in OutputFormat if form is not OutputFormat.PROMETHEUS)
_PROFILE: Final = f"{__name__}.profile"
_SHOW_CONFIG: Final = f"{__name__}.show_config"
_OUTPUT: Final = f"{__name__}.output"
_OUTPUT_HELP: Final = "Format of the answer; default: Kafka's text in a pipe, a table on a terminal."
_VERSION_HELP: Final = "Print the version of Kafka that this is compatible with."
_AUTHORIZATION: Final = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
        ErrorCode.SASL_AUTHENTICATION_FAILED,
    }
)


class CommandError(Exception):
    """A command failed in a way that it can explain.

    Args:
        message: one sentence.
        hint: what to do about it.
        status: how the command ends.
        kafka_status: how Kafka's tool ends in this case, for ``PK_COMPAT=3.9``.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        status: ExitStatus = ExitStatus.FAILURE,
        kafka_status: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.status = status
        self.kafka_status = kafka_status


class BadValueError(click.UsageError):
    """Wrong use that Kafka's tools notice when they come to the value: those that print what fails print this too."""


class _Explaining(click.Command):
    """Runs a command and turns its errors into one line and a status."""

    error_text: str | None = None
    kafka_failure: int = 1

    def main(self, args: Sequence[str] | None = None, *unused: Any, **extra: Any) -> NoReturn:  # noqa: ANN401 - click's signature
        """Run the command and end the process with its status."""
        sys.exit(self.run(list(sys.argv[1:] if args is None else args)))

    def run(self, args: list[str]) -> int:
        """Run the command and return its status."""
        name = self.name or "pk"
        if sys.stdout is None:  # closed by the caller, as >&- does
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - for as long as the process lasts
        output.begin_run()
        try:
            self._run(name, args)
            sys.stdout.flush()
        except click.UsageError as error:
            at = name if error.ctx is None else error.ctx.command_path
            message = error.format_message()
            asked = _asked_format(args)
            output.show_error("Usage", message, code=None, asked=asked)
            if isinstance(error, BadValueError):
                self._print_as_kafka(message, asked)
            output.note(f"{at}: {message} (see {at} --help)")
            is_noticed_late = isinstance(error, BadValueError) and self.error_text is not None
            return effective(ExitStatus.USAGE, kafka_says=self.kafka_failure if is_noticed_late else None)
        except (KeyboardInterrupt, click.Abort):
            _end_document(args)
            return ExitStatus.INTERRUPTED
        except BrokenPipeError:
            # The reader of a pipe left, as `| head` does; nothing is wrong.
            _give_up_stdout()
            return ExitStatus.OK
        except click.exceptions.Exit as leaving:
            return leaving.exit_code
        except (PkafkaError, CommandError, OSError) as error:
            if "--debug" in args:
                raise
            return self._explain(name, args, error)
        return ExitStatus.OK

    def _run(self, name: str, args: list[str]) -> None:
        # A copy: click takes the words of a group out of the list, and an error has to know what was asked for.
        with self.make_context(name, [*args]) as ctx:
            status = self.invoke(ctx)
            if status:
                raise click.exceptions.Exit(int(status))

    def _explain(self, name: str, args: list[str], error: Exception) -> int:
        message, hint, code, status = explain(error)
        asked = _asked_format(args)
        try:
            output.show_error(_error_name(error), message, code=code, asked=asked)
            self._print_as_kafka(message, asked)
            sys.stdout.flush()
        except OSError:
            _give_up_stdout()  # it is full, which may be the very error
        output.note(f"{name}: {message}" + (f" ({hint})" if hint else ""))
        return effective(status, kafka_says=self._kafka_status(error))

    def _kafka_status(self, error: Exception) -> int:
        from pkafka.clients.errors import ClientError

        if isinstance(error, CommandError) and error.kafka_status is not None:
            return error.kafka_status
        # What a tool is told wrongly ends it before it has a cluster to fail at, unless it catches everything.
        is_early = self.error_text is None and not isinstance(error, ApiError | ClientError | CommandError)
        return ExitStatus.FAILURE if is_early else self.kafka_failure

    def _print_as_kafka(self, message: str, asked: OutputFormat | None) -> None:
        if self.error_text is not None and asked in (None, OutputFormat.TEXT) and not sys.stdout.isatty():
            output.line(f"{self.error_text}{message}")


def _end_document(args: Sequence[str]) -> None:
    """Whoever reads JSON gets a whole document from a run that is interrupted, too."""
    try:
        output.show_error("Interrupted", "interrupted", code=None, asked=_asked_format(args))
        sys.stdout.flush()
    except OSError:
        _give_up_stdout()


def _give_up_stdout() -> None:
    """Let what is still buffered go nowhere, instead of failing once more at the end of the process."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class KafkaCommand(_Explaining):
    """A command with Kafka's habits.

    Args:
        error_text: the beginning of the line that Kafka's tool prints to standard output on failure, if it does.
        kafka_failure: what Kafka's tool ends with when it cannot reach the cluster (some say 0).
        greedy: flags that take every argument up to the next flag (argparse4j's nargs="+").
        argparse4j: whether Kafka's tool parses with that: it shows its help on standard output.
    """

    greedy: tuple[str, ...] = ()
    argparse4j: bool = False

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        """``--help``: standard output and 0; with PK_COMPAT as Kafka's tool, which fails."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.callback = self._show_help
        return option

    def _show_help(self, ctx: click.Context, _: click.Parameter, value: bool) -> None:
        if not value or ctx.resilient_parsing:
            return
        is_compat = compat_39()
        show = output.note if is_compat and not self.argparse4j else output.line
        show(ctx.get_help())
        raise click.exceptions.Exit(ExitStatus.FAILURE if is_compat else ExitStatus.OK)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Bring the arguments into click's form and refuse repeated single-valued flags."""
        if not args and self.params and any(param.required for param in self.params):
            # As Kafka's tools: without arguments show what there is.
            if self.argparse4j and compat_39():
                output.line(ctx.get_help())
                raise click.exceptions.Exit(ExitStatus.OK)
            output.note(ctx.get_help())
            raise click.exceptions.Exit(
                effective(ExitStatus.USAGE, kafka_says=ExitStatus.OK if self.argparse4j else None)
            )
        if compat_39():
            ctx.allow_extra_args = True
        args = self._spread([self._double_dash(arg) for arg in args])
        self._refuse_repeated(args)
        try:
            return super().parse_args(ctx, args)
        except click.BadParameter as error:
            raise _in_kafkas_words(error) from error

    def _long_names(self) -> dict[str, click.Option]:
        return {
            flag: param
            for param in self.params
            if isinstance(param, click.Option)
            for flag in (*param.opts, *param.secondary_opts)
            if flag.startswith("--")
        }

    def _double_dash(self, arg: str) -> str:
        if arg.startswith("-") and not arg.startswith("--") and len(arg) > 2:
            flag = "-" + arg.split("=", 1)[0]
            if flag in self._long_names() or flag == "--help":
                return "-" + arg
        return arg

    def _spread(self, args: list[str]) -> list[str]:
        """Repeat a greedy flag in front of each of its arguments, which is how click reads them."""
        spread: list[str] = []
        greedy: str | None = None
        for arg in args:
            if arg.startswith("-"):
                greedy = arg if arg in self.greedy else None
                if greedy is None:
                    spread.append(arg)
            elif greedy is not None:
                spread += [greedy, arg]
            else:
                spread.append(arg)
        return spread

    def _refuse_repeated(self, args: list[str]) -> None:
        known = self._long_names()
        seen: set[str] = set()
        for arg in args:
            if arg == "--":
                return
            option = known.get(arg.split("=", 1)[0])
            if option is None or option.multiple or option.is_flag or option.name is None:
                continue
            if option.name in seen:
                text = f"Found multiple arguments for option {arg.split('=', 1)[0][2:]}, but you asked for only one"
                raise BadValueError(text)
            seen.add(option.name)


def _in_kafkas_words(error: click.BadParameter) -> click.UsageError:
    is_number = error.param is not None and isinstance(
        error.param.type, click.types.IntParamType | click.types.FloatParamType
    )
    found = _NO_NUMBER.match(error.message) if is_number else None
    if found is None or error.param is None:
        return error
    name = max(error.param.opts, key=len).lstrip("-")
    return BadValueError(f"Cannot parse argument '{found[1]}' of option {name}", error.ctx)


class CommandGroup(_Explaining, click.Group):
    """A command of several verbs, which Kafka has not."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click's; without a verb it shows the verbs."""
        if not args:
            output.note(ctx.get_help())
            raise click.exceptions.Exit(effective(ExitStatus.USAGE))
        return super().parse_args(ctx, args)


def explain(error: Exception) -> tuple[str, str | None, int | None, ExitStatus]:
    """Message, hint, Kafka's code if it has one, and exit status of an error."""
    if isinstance(error, CommandError):
        return error.message, error.hint, None, error.status
    if isinstance(error, ApiError):
        denied = error.code in _AUTHORIZATION
        status = ExitStatus.AUTHENTICATION if denied else ExitStatus.FAILURE
        if error.code is ErrorCode.REQUEST_TIMED_OUT:
            status = ExitStatus.UNREACHABLE
        return error.message, None, error.code, status
    if isinstance(error, ConfigError):
        return str(error), None, None, ExitStatus.USAGE
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}", None, None, ExitStatus.FAILURE
    from pkafka.clients.errors import AuthenticationError, ClientError, ClientTimeoutError, ConnectError

    hint = error.hint if isinstance(error, ClientError) else None
    if isinstance(error, AuthenticationError):
        return str(error), hint, None, ExitStatus.AUTHENTICATION
    if isinstance(error, ConnectError | ClientTimeoutError):
        return str(error), hint, None, ExitStatus.UNREACHABLE
    return str(error), hint, None, ExitStatus.FAILURE


def failure(error: Exception | None) -> Failure | None:
    """An error as a row of an answer has it; None stays None."""
    if error is None:
        return None
    message, _, code, _ = explain(error)
    return Failure(_error_name(error), message, code)


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
            click.UsageError: nobody names a broker.
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

    @contextmanager
    def admin(self) -> "Iterator[Admin]":
        """An admin client for the length of a ``with`` block; gives up at once where no broker listens."""
        properties = self.admin_properties()
        settle(properties, _client_config)
        from pkafka.clients.admin import Admin

        with Admin(properties, fail_fast=True) as admin:
            yield admin

    def show(self, view: View) -> None:
        """Print a view in the format asked for."""
        show(view, self.output)


def command(
    name: str,
    *,
    error_text: str | None = None,
    kafka_failure: int = 1,
    greedy: tuple[str, ...] = (),
    argparse4j: bool = False,
    version: Callable[[], None] | None = None,
    version_help: str | None = None,
) -> Callable[[F], KafkaCommand]:
    """Make a function a pk-* command with ``--version``, ``--help`` and ``--debug``.

    Args:
        error_text, kafka_failure, greedy, argparse4j: see :class:`KafkaCommand`.
        version, version_help: what ``--version`` does and says of itself, if not what the tools of Kafka 3.9 do.
    """

    def decorate(function: F) -> KafkaCommand:
        settings = {"help_option_names": HELP_FLAGS, "max_content_width": 110}
        made = click.command(name, cls=KafkaCommand, context_settings=settings)(
            _version(_debug(function), version or _show_version, version_help or _VERSION_HELP)
        )
        made.error_text = error_text
        made.kafka_failure = kafka_failure
        made.greedy = greedy
        made.argparse4j = argparse4j
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


def _connection(function: F, output: Callable[[F], F]) -> F:
    return bootstrap_option(
        click.option("--command-config", metavar="FILE", help="Properties file for the client.")(
            timeout_option(output(_gather(function)))
        )
    )


def bootstrap_option(function: F) -> F:
    """Add what says which cluster is meant: ``--bootstrap-server`` and ``--profile``; and ``--show-config``."""

    def keep(context: click.Context, parameter: click.Parameter, value: object) -> None:
        context.meta[f"{__name__}.{parameter.name}"] = value

    return click.option("--bootstrap-server", metavar="HOST:PORT,...", help="Brokers to begin with.")(
        click.option(
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
    from pkafka.cli.client_settings import client_settings

    assert isinstance(pairs, tuple)
    return client_settings(
        profile=_asked().get(_PROFILE),
        file=None if file is None else str(file),
        pairs=parse_assignments(pairs, option=option),
        pairs_option=option,
        servers=None if servers is None else str(servers),
    )


def settle(properties: "Mapping[str, object]", kind: "Callable[[], type[ClientConfig]]") -> None:
    """The settings of a command's client are complete: with ``--show-config`` show them, and do nothing else.

    Args:
        kind: brings the class of its configuration, which is imported only then.

    Raises:
        ConfigError: a value is wrong.
    """
    asked = _asked()
    if asked.get(_SHOW_CONFIG):
        from pkafka.cli.client_settings import show_settings

        form = asked.get(_OUTPUT)
        show_settings(properties, kind(), OutputFormat(form) if form else None)
        raise click.exceptions.Exit(ExitStatus.OK)


def _asked() -> dict[str, Any]:
    """What flags said that no command looks at itself."""
    context = click.get_current_context(silent=True)
    return {} if context is None else context.meta


def require_brokers(properties: Mapping[str, object]) -> None:
    """Refuse to go on when nobody names a broker.

    Raises:
        click.UsageError: in Kafka's words.
    """
    if not properties.get("bootstrap.servers"):
        raise click.UsageError('Missing required argument "[bootstrap-server]"')


def parse_duration_ms(text: str, *, option: str = "timeout") -> int:
    """Milliseconds of ``1500``, ``500ms``, ``5s``, ``2m`` or ``1h``.

    Raises:
        click.UsageError: it is none of them.
    """
    for suffix, factor in (("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)):
        if text.endswith(suffix) and text[: -len(suffix)].isdigit():
            return int(text[: -len(suffix)]) * factor
    if not text.isdigit():
        raise click.UsageError(f"Cannot parse argument '{text}' of option {option}")
    return int(text)


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

    # What click reads off a function: its name, its help, and the flags added to it so far.
    gathered.__doc__ = function.__doc__
    gathered.__name__ = function.__name__
    gathered.__click_params__ = getattr(function, "__click_params__", [])  # type: ignore[attr-defined]
    return gathered  # type: ignore[return-value]


def _version(function: F, show: Callable[[], None], text: str) -> F:
    def show_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
        if value:
            show()
            ctx.exit(0)

    return click.option(
        "--version",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=show_version,
        help=text,
    )(function)


def _show_version() -> None:
    output.line(pkafka.KAFKA_VERSION)
    output.note(f"pkafka {pkafka.__version__}, compatible with Apache Kafka {pkafka.KAFKA_VERSION}")


def _debug(function: F) -> F:
    return click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of a failure.")(
        function
    )


def _client_config() -> "type[ClientConfig]":
    from pkafka.clients.config import ClientConfig

    return ClientConfig


def _asked_format(args: Sequence[str]) -> OutputFormat | None:
    """The ``--output`` of a command line, for errors that come before or after parsing."""
    for position, arg in enumerate(args):
        value = arg.partition("=")[2] if arg.startswith("--output=") else None
        if arg == "--output" and position + 1 < len(args):
            value = args[position + 1]
        if value in {form.value for form in OutputFormat}:
            return OutputFormat(value)
    return None


def _error_name(error: Exception) -> str:
    return error.code.name if isinstance(error, ApiError) else type(error).__name__.removesuffix("Error")
