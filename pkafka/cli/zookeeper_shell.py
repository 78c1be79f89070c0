"""pk-zookeeper-shell: look at nodes of ZooKeeper and change them, as zookeeper-shell.sh; of an embedded store too."""

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from pkafka.cli.kit.exit_status import ExitStatus, effective
from pkafka.cli.kit.kafka_command import CommandError
from pkafka.cli.kit.options import command, parse_duration_ms, text_output_option, timeout_option
from pkafka.cli.kit.output import OutputFormat, View, line, note, show
from pkafka.errors import PkafkaError

if TYPE_CHECKING:
    from pkafka.coordination.administration import Event, Nodes
    from pkafka.tools.zookeeper.words import Answer

COMMAND_NOT_FOUND: Final = 127
_SERVER: Final = "localhost:2181"


@command("pk-zookeeper-shell")
@click.option(
    "--zk-tls-config-file",
    metavar="FILE",
    help="Properties file with zookeeper.ssl.client.enable and the rest of zookeeper.ssl.*; stores in PEM.",
)
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Instead of a server: the first log directory of a broker without ZooKeeper. While the broker runs, "
    "the shell only reads.",
)
@click.option("--read-only", is_flag=True, help="Accept a server that has lost its ensemble.")
@timeout_option
@text_output_option
@click.argument("words", nargs=-1, metavar="[HOST:PORT[,...][/CHROOT]] [COMMAND [ARGUMENT]...]")
def main(
    zk_tls_config_file: str | None,
    data_dir: Path | None,
    read_only: bool,
    timeout: str,
    output: str | None,
    words: tuple[str, ...],
) -> int:
    """Look at the nodes of ZooKeeper and change them.

    With a command, the shell runs it and ends; without one it reads commands line by line. A directory in place of
    the server is that of --data-dir. The shell logs in by the section Client of a JAAS file (KAFKA_OPTS). Commands:
    addWatch addauth close config connect create delete deleteall delquota
    get getAcl getAllChildrenNumber getEphemerals history listquota ls printwatches quit reconfig redo removewatches
    set setAcl setquota stat sync version whoami.
    """
    server, asked = ("", words) if data_dir is not None else (words[0] if words else _SERVER, words[1:])
    if data_dir is None and (server.startswith((".", "/")) or Path(server).exists()):
        data_dir = Path(server)
    for flag in (*words[:1], *asked[:1]):
        if flag.startswith("-"):  # before the verb: neither its flag nor a server
            raise click.NoSuchOption(flag)
    form = OutputFormat(output) if output else OutputFormat.TEXT
    if form is not OutputFormat.TEXT and not asked:
        raise click.UsageError("--output needs a command")
    if data_dir is not None:
        return _Console(str(data_dir), form, _file_opener(data_dir)).run(asked)
    opener = _server_opener(zk_tls_config_file, timeout_ms=parse_duration_ms(timeout), read_only=read_only)
    return _Console(server, form, opener).run(asked)


class _Console:
    """The shell with its input and output.

    Args:
        server: the name that the user gave it.
        form: of the answers; events and greetings are text only.
        open_nodes: connects; gets the server and what is to be done with events.
    """

    def __init__(
        self, server: str, form: OutputFormat, open_nodes: "Callable[[str, Callable[[Event], None]], Nodes]"
    ) -> None:
        from pkafka.tools.zookeeper.shell import Shell

        self._server = server
        self._form = form
        self._open_nodes = open_nodes
        self._leaving = False
        self._shell = Shell(self._connect)

    def run(self, words: Sequence[str]) -> int:
        """Run one command, or all that are typed.

        Returns:
            The status to end with.
        """
        try:
            return self._run_once(words) if words else self._converse()
        finally:
            self._leaving = True
            self._shell.close()

    def _connect(self, server: str | None) -> "Nodes":
        self._server = server or self._server
        try:
            return self._open_nodes(self._server, self._show_event)
        except ValueError as error:
            raise click.UsageError(str(error)) from None

    def _show_event(self, event: "Event") -> None:
        if self._leaving or self._form is not OutputFormat.TEXT or not self._shell.print_watches:
            return
        kind, path = event.type or "None", event.path or "null"
        line(f"\nWATCHER::\n\nWatchedEvent state:{event.state.value} type:{kind} path:{path}")

    def _run_once(self, words: Sequence[str]) -> int:
        from pkafka.tools.zookeeper.shell import Leave, UnknownVerbError

        if self._form is OutputFormat.TEXT:
            line(f"Connecting to {self._server}")
        try:
            self._shell.check(words)
            self._shell.open()
            self._show(self._shell.run(words))
        except Leave:
            pass
        except UnknownVerbError as error:
            _explain_verbs(error)
            return COMMAND_NOT_FOUND
        except PkafkaError as error:
            raise _explained(error) from error
        return ExitStatus.OK

    def _converse(self) -> int:
        """Lines until the input ends or says quit; the status is that of the last command."""
        from pkafka.tools.zookeeper.shell import Leave, UnknownVerbError

        line(f"Connecting to {self._server}")
        line("Welcome to ZooKeeper!")
        if not sys.stdin.isatty():
            line("JLine support is disabled")
        self._shell.open()
        status = 0
        for typed in self._lines():
            try:
                self._show(self._shell.run_line(typed))
                status = ExitStatus.OK
            except Leave:
                break
            except UnknownVerbError as error:
                _explain_verbs(error)
                status = COMMAND_NOT_FOUND
            except (PkafkaError, CommandError) as error:
                explained = error if isinstance(error, CommandError) else _explained(error)
                note(explained.message)
                status = effective(explained.status, kafka_says=explained.kafka_status)
            except (click.UsageError, OSError) as error:
                note(str(error))
                status = effective(ExitStatus.USAGE)
        return status

    def _lines(self) -> Iterator[str]:
        if not sys.stdin.isatty():
            yield from (typed.decode(errors="replace").rstrip("\r\n") for typed in sys.stdin.buffer)
            return
        _edit_lines(self._completions)
        while True:
            try:
                typed = input(self._prompt())
            except EOFError:
                return
            except KeyboardInterrupt:
                note("")
                continue
            if typed.strip():
                yield typed

    def _prompt(self) -> str:
        state = "CLOSED" if self._shell.nodes is None else "CONNECTED"
        return f"[zk: {self._server}({state}) {len(self._shell.history)}] "

    def _completions(self, begin: str) -> list[str]:
        """Verbs, or nodes whose path begins like this."""
        from pkafka.tools.zookeeper.shell import VERB_NAMES

        if not begin.startswith("/"):
            return [name for name in VERB_NAMES if name.startswith(begin)]
        nodes = self._shell.nodes
        if nodes is None:
            return []
        above = begin[: begin.rfind("/")]
        try:
            names, _ = nodes.children(above or "/")
        except PkafkaError:
            return []
        return [path for name in sorted(names) if (path := f"{above}/{name}").startswith(begin)]

    def _show(self, answer: "Answer") -> None:
        for remark in answer.remarks:
            note(remark)
        rows = answer.rows if answer.name else [{"line": each} for each in answer.lines]
        show(View(answer.name or "lines", answer.lines, rows), self._form)
        sys.stdout.flush()


def _edit_lines(completions: Callable[[str], list[str]]) -> None:
    """Let readline keep a history and complete words, where Python has it."""
    try:
        import readline
    except ImportError:
        return

    def complete(begin: str, number: int) -> str | None:
        found = completions(begin)
        return found[number] if number < len(found) else None

    readline.set_completer(complete)
    readline.set_completer_delims(" \t")
    readline.parse_and_bind("tab: complete")


def _explain_verbs(error: PkafkaError) -> None:
    from pkafka.tools.zookeeper.shell import USAGE

    for each in USAGE:
        note(each)
    note(str(error))


def _explained(error: PkafkaError) -> CommandError:
    """An error in the shell's words, with the status that it ends with."""
    from pkafka.coordination.administration import KeeperCode, KeeperError
    from pkafka.tools.zookeeper.quota import NoQuotaError, QuotaTooLowError
    from pkafka.tools.zookeeper.shell import explain
    from pkafka.tools.zookeeper.verbs import DeletionIncompleteError
    from pkafka.tools.zookeeper.words import VerbUsageError

    if isinstance(error, KeeperError):
        status = ExitStatus.FAILURE
        if error.code == KeeperCode.AUTH_FAILED:
            return CommandError(explain(error), status=ExitStatus.AUTHENTICATION, kafka_status=0)
        if error.code == KeeperCode.NO_AUTH:
            status = ExitStatus.AUTHENTICATION
        elif error.code in (KeeperCode.CONNECTION_LOSS, KeeperCode.SESSION_EXPIRED):
            status = ExitStatus.UNREACHABLE
        return CommandError(explain(error), status=status)
    if isinstance(error, VerbUsageError):
        return CommandError(str(error), status=ExitStatus.USAGE)
    # What ZooKeeper's shell says and goes on.
    told = isinstance(error, NoQuotaError | QuotaTooLowError | DeletionIncompleteError)
    return CommandError(str(error), kafka_status=0 if told else None)


def _file_opener(place: Path) -> "Callable[[str, Callable[[Event], None]], Nodes]":
    from pkafka.coordination.embedded import STORE_FILE
    from pkafka.coordination.embedded_nodes import EmbeddedNodes

    file = place if place.is_file() else place / STORE_FILE
    return lambda _server, _show_event: EmbeddedNodes(file)


def _server_opener(
    tls_file: str | None, *, timeout_ms: int, read_only: bool
) -> "Callable[[str, Callable[[Event], None]], Nodes]":
    from pkafka.coordination.store import ConnectionLossError, StoreAccessError
    from pkafka.coordination.zookeeper_session import ZooKeeperSession
    from pkafka.java.properties import load_properties
    from pkafka.security.zookeeper_login import zookeeper_login
    from pkafka.tools.zookeeper.shell import tls_settings

    tls = None if tls_file is None else tls_settings(load_properties(tls_file), source=tls_file)
    login = zookeeper_login()

    def connect(server: str, show_event: "Callable[[Event], None]") -> ZooKeeperSession:
        session = ZooKeeperSession(
            server,
            session_timeout_ms=timeout_ms,
            on_event=show_event,
            read_only=read_only,
            tls=tls,
            login=login,
        )
        try:
            session.wait_connected(timeout_ms)
        except ConnectionLossError as error:
            session.close()
            raise CommandError(str(error), status=ExitStatus.UNREACHABLE) from None
        except StoreAccessError as error:
            session.close()
            hint = "see -Djava.security.auth.login.config in KAFKA_OPTS"
            raise CommandError(str(error), hint=hint, status=ExitStatus.AUTHENTICATION) from None
        return session

    return connect


# What a verb's flags mean is the verb's business, and they may stand beside those of the command.
main.ignore_unknown_options = True


if __name__ == "__main__":
    main()
