"""Kafka's habits of writing a command line, and what becomes of an error.

``KafkaCommand`` accepts what Kafka's parser (jopt-simple) accepts: single-dash long names, ``--opt=v``; a
single-valued flag given twice is refused. An error is one line that says what to do, never a traceback.
"""

import atexit
import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, Final, NoReturn, TypeAlias

import click

from pkafka.cli.kit import output
from pkafka.cli.kit.actions import Actions
from pkafka.cli.kit.exit_status import ExitStatus, compat_39, effective
from pkafka.cli.kit.light_click import LightContext
from pkafka.cli.kit.numbers import as_java
from pkafka.cli.kit.output import Failure, OutputFormat
from pkafka.errors import ApiError, ConfigError, ErrorCode, PkafkaError

HELP_FLAGS: Final = ["--help", "-h"]
_TOLD_BY: Final = frozenset({*HELP_FLAGS, "--version"})
_ACTION: Final = f"{__name__}.action"
_NO_NUMBER: Final = r"(?s)'(.*)' is not a valid (?:integer|float)"
_NO_TOPIC_KEY: Final = r"Unknown topic config name: (\S+)"
_NEEDS: Final = r"(?s)Request Request\(.*\) needs (\w+) permission\."
"""What brokers in Java say of a request that the cluster does not allow: all that they know of it."""
_RIGHTS: Final = "pk-acls --explain says which rule decides; who administrates allows more by pk-acls --add"
_HINTS: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: _RIGHTS,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: _RIGHTS,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: _RIGHTS,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: _RIGHTS,
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: _RIGHTS,
    ErrorCode.INVALID_REPLICATION_FACTOR: "pk-cluster list-endpoints shows the brokers",
    ErrorCode.TOPIC_DELETION_DISABLED: "brokers with delete.topic.enable=true delete topics",
}
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


ErrorText: TypeAlias = str | Callable[[Exception], str | None]
"""What Kafka's tool prints to standard output when it fails: words before the message, or what makes all of it."""


class _Explaining(click.Command):
    """Runs a command and turns its errors into one line and a status."""

    context_class = LightContext
    error_text: "ErrorText | None" = None
    kafka_failure: int = 1
    _only_told = False
    """Whether the last run told about the command, and did nothing."""

    def main(self, args: Sequence[str] | None = None, *unused: Any, **extra: Any) -> NoReturn:  # noqa: ANN401 - click's signature
        """Run the command and end the process with its status."""
        status = self.run(list(sys.argv[1:] if args is None else args))
        if args is None and self._only_told:
            _end_at_once(status)
        sys.exit(status)

    def run(self, args: list[str]) -> int:
        """Run the command and return its status."""
        output.begin_run()
        try:
            return self._run_and_explain(self.name or "pk", args)
        except (KeyboardInterrupt, click.Abort):  # also while what went wrong is said
            _end_document(args)
            return ExitStatus.INTERRUPTED

    def _run_and_explain(self, name: str, args: list[str]) -> int:
        try:
            self._run(name, args)
            sys.stdout.flush()
        except click.UsageError as error:
            at = name if error.ctx is None else error.ctx.command_path
            message = error.format_message()
            asked = _asked_format(args)
            output.show_error("Usage", message, code=None, asked=asked)
            if isinstance(error, BadValueError):
                self._print_as_kafka(error, message, asked)
            action = error.ctx.meta.get(_ACTION) if error.ctx is not None else None
            output.note(f"{at}: {message} (see {at}{f' --{action}' if action else ''} --help)")
            is_noticed_late = isinstance(error, BadValueError) and self.error_text is not None
            return effective(ExitStatus.USAGE, kafka_says=self.kafka_failure if is_noticed_late else None)
        except BrokenPipeError:
            # The reader of a pipe left, as `| head` does; nothing is wrong.
            _give_up_stdout()
            return ExitStatus.OK
        except click.exceptions.Exit as leaving:
            self._only_told = not _TOLD_BY.isdisjoint(args)
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
            self._print_as_kafka(error, message, asked)
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

    def _print_as_kafka(self, error: Exception, message: str, asked: OutputFormat | None) -> None:
        text = self.error_text(error) if callable(self.error_text) else self.error_text
        if text is not None and asked in (None, OutputFormat.TEXT) and not sys.stdout.isatty():
            output.line(text if callable(self.error_text) else f"{text}{message}")


class KafkaCommand(_Explaining):
    """A command with Kafka's habits.

    Args:
        error_text: the beginning of the line that Kafka's tool prints to standard output on failure, if it does;
            or what says, given an error, all that it prints (None: nothing).
        kafka_failure: what Kafka's tool ends with when it cannot reach the cluster (some say 0).
        greedy: flags that take every argument up to the next flag (argparse4j's nargs="+").
        argparse4j: whether Kafka's tool parses with that: it shows its help on standard output.
        actions: the flags of which one says what to do, if it has such.
    """

    greedy: tuple[str, ...] = ()
    argparse4j: bool = False
    actions: Actions | None = None

    def __init__(self, *args: Any, **settings: Any) -> None:  # noqa: ANN401 - click's
        super().__init__(*args, **settings)
        _read_numbers_as_java(self)

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

    def get_help(self, ctx: click.Context) -> str:
        """As click's; beside an action of what goes with that action."""
        action = ctx.meta.get(_ACTION)
        return super().get_help(ctx) if action is None else self._of_action(action, ctx).get_help(ctx)

    def _of_action(self, action: str, ctx: click.Context) -> click.Command:
        """This command reduced to one action."""
        actions, flags, name = self.actions, self._long_names(), ctx.command_path
        assert actions is not None
        params = [param for flag, param in flags.items() if actions.has(action, flag.removeprefix("--"))]
        return click.Command(
            self.name,
            params=list(dict.fromkeys(params)),  # one may have two flags
            help=flags[f"--{action}"].help,
            options_metavar=f"--{action} [OPTIONS]",
            epilog=f"\b\nExample:\n  {actions.example(name, action)}\n\nAll actions: {name} --help",
        )

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
        if self.actions is not None:
            ctx.meta[_ACTION] = self.actions.asked(args)
        self._refuse_repeated(args)
        try:
            return super().parse_args(ctx, [*args])  # a copy, which click empties
        except click.NoSuchOption as error:
            if error.option_name == "--zookeeper" and "--bootstrap-server" in self._long_names():
                text = "zookeeper is not a recognized option: since Kafka 3 it is --bootstrap-server"
                raise click.NoSuchOption(error.option_name, text, ctx=error.ctx) from error
            raise
        except click.BadParameter as error:
            raise _in_kafkas_words(error) from error
        except click.UsageError as error:
            taken = self._flag_taken_for_a_value(args)
            if type(error) is not click.UsageError or taken is None:
                raise
            # What is wrong is not the word behind it, which the parser found to be one too many.
            raise click.UsageError(f"{taken[0]} needs a value, before {taken[1]}", error.ctx) from error

    def _flag_taken_for_a_value(self, args: list[str]) -> tuple[str, str] | None:
        """A flag without its value, and the next flag, which was taken for the value."""
        known = self._long_names()
        for flag, following in pairwise(args):
            option = known.get(flag)
            if option is not None and not option.is_flag and following in known:
                return flag, following
        return None

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


class CommandGroup(_Explaining, click.Group):
    """A command of several verbs; Kafka has no such commands."""

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        """As click's; the verb reads numbers as Java does."""
        _read_numbers_as_java(cmd)
        cmd.context_class = LightContext
        super().add_command(cmd, name)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click's; without a verb it shows the verbs."""
        if not args:
            output.note(ctx.get_help())
            raise click.exceptions.Exit(effective(ExitStatus.USAGE))
        return super().parse_args(ctx, args)


def _read_numbers_as_java(command: click.Command) -> None:
    for param in command.params:
        param.type = as_java(param.type)


def asked_action(context: click.Context) -> str | None:
    """The action of the command line that runs; None of a command that has no such."""
    action: str | None = context.meta.get(_ACTION)
    return action


def explain(error: Exception) -> tuple[str, str | None, int | None, ExitStatus]:
    """Message, hint, Kafka's code if it has one, and exit status of an error."""
    if isinstance(error, CommandError):
        return error.message, error.hint, None, error.status
    if isinstance(error, ApiError):
        denied = error.code in _AUTHORIZATION
        status = ExitStatus.AUTHENTICATION if denied else ExitStatus.FAILURE
        if error.code is ErrorCode.REQUEST_TIMED_OUT:
            status = ExitStatus.UNREACHABLE
        return _short(error.message), _hint_at(error), error.code, status
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


def status_of(errors: Iterable[Exception]) -> ExitStatus:
    """The status of a command of which several parts failed: that of each part where all have the same."""
    found = {explain(error)[3] for error in errors}
    return found.pop() if len(found) == 1 else ExitStatus.FAILURE


def _short(message: str) -> str:
    found = re.fullmatch(_NEEDS, message)
    return message if found is None else f"Cluster authorization failed: it needs {found[1]} permission."


def _hint_at(error: ApiError) -> str | None:
    """What a command knows of it and added as a note, or what follows from the error itself."""
    notes: list[str] = getattr(error, "__notes__", [])
    return notes[0] if notes else _meant_key(error) or _HINTS.get(error.code)


def _meant_key(error: ApiError) -> str | None:
    """The setting of topics that looks most like one that does not exist."""
    found = re.fullmatch(_NO_TOPIC_KEY, error.message) if error.code is ErrorCode.INVALID_CONFIG else None
    if found is None:
        return None
    from pkafka.cli.kit.spelling import did_you_mean
    from pkafka.server.config.keys import topic_keys

    return did_you_mean(found[1], topic_keys())


def failure(error: Exception | None) -> Failure | None:
    """An error as a row of an answer has it; None stays None."""
    if error is None:
        return None
    message, _, code, _ = explain(error)
    return Failure(_error_name(error), message, code)


def _in_kafkas_words(error: click.BadParameter) -> click.UsageError:
    is_number = error.param is not None and isinstance(
        error.param.type, click.types.IntParamType | click.types.FloatParamType
    )
    found = re.match(_NO_NUMBER, error.message) if is_number else None
    if found is None or error.param is None:
        return error
    name = max(error.param.opts, key=len).lstrip("-")
    return BadValueError(f"Cannot parse argument '{found[1]}' of option {name}", error.ctx)


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


def _end_document(args: Sequence[str]) -> None:
    """Print the error document of a run that is interrupted: a program that reads JSON gets a whole one."""
    try:
        output.show_error("Interrupted", "interrupted", code=None, asked=_asked_format(args))
        sys.stdout.flush()
    except OSError:
        _give_up_stdout()


def _end_at_once(status: int) -> None:
    """End the process without taking apart what it imported, where nothing else is left to do: a sixth of its time."""
    if atexit._ncallbacks() or threading.active_count() > 1:
        return
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        return  # Python says so, as ever
    os._exit(status)


def _give_up_stdout() -> None:
    """Let what is still buffered go nowhere, instead of failing once more at the end of the process."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
