"""pk-server-stop and pk-zookeeper-server-stop: signal the servers of this machine."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import click

from pkafka.cli.kit.exit_status import compat_39
from pkafka.cli.kit.kafka_command import CommandError
from pkafka.cli.kit.options import command
from pkafka.cli.kit.output import line, note
from pkafka.java.numbers import parse_int
from pkafka.java.text import trim
from pkafka.tools.servers.processes import Server, find_brokers, find_zookeepers, send_signal

_ALL_HELP = "Stop all servers that are found, where there are several."


class _Found(NamedTuple):
    """A server that would be stopped, and the text that describes it."""

    server: Server
    text: str


class _BrokerSettings(NamedTuple):
    """What the command line of a broker and its file say."""

    file: Path | None
    given: Mapping[str, str]

    @property
    def broker_id(self) -> int | None:
        """The id that is asked for; None: the broker takes that of its data directories, or gets one."""
        for name in ("node.id", "broker.id"):
            text = self.given.get(name)
            if text is not None:
                with suppress(ValueError):  # it will not start with that
                    return number if (number := parse_int(trim(text))) >= 0 else None
                return None
        return 0 if self.file is None else None


@command("pk-server-stop")
@click.option(
    "--process-role",
    type=click.Choice(["broker", "controller"]),
    help="As in Kafka; no process is a controller alone, so controller finds none.",
)
@click.option("--node-id", type=int, metavar="ID", help="Stop only the broker with this id.")
@click.option("--all", "stop_all", is_flag=True, help=_ALL_HELP)
def main(process_role: str | None, node_id: int | None, stop_all: bool) -> int:
    """Stop the broker of this machine: it gets SIGTERM (or SIGNAL from the environment) and ends cleanly.

    Where several run, or several have the id, the command stops none without --all. It does not wait for their end.
    """
    # Every broker can be the controller in ZooKeeper mode; none is a controller alone.
    is_controller = process_role == "controller" and node_id is None
    running = [] if is_controller else _visible(find_brokers)
    found = []
    for server in running:
        if server.may_be_signalled:
            settings = _settings(server)
            broker_id = server.stored_broker_id()
            broker_id = settings.broker_id if broker_id is None else broker_id
            if node_id is None or broker_id == node_id:
                found.append(_Found(server, _broker_text(server, settings, broker_id)))
    kind = "brokers" if node_id is None else f"brokers with id {node_id}"
    return _stop(found, running, kind=kind, nothing="No kafka server to stop", stop_all=stop_all)


@command("pk-zookeeper-server-stop")
@click.option("--all", "stop_all", is_flag=True, help=_ALL_HELP)
def zookeeper_main(stop_all: bool) -> int:
    """Stop the ZooKeeper server of this machine (SIGTERM, or SIGNAL from the environment).

    Where several run, the command stops none without --all.
    """
    running = _visible(find_zookeepers)
    found = [
        _Found(each, _text(each, " ".join(each.arguments) or "no configuration"))
        for each in running
        if each.may_be_signalled
    ]
    return _stop(
        found, running, kind="ZooKeeper servers", nothing="No zookeeper server to stop", stop_all=stop_all
    )


def _visible(find: Callable[[], list[Server]]) -> list[Server]:
    try:
        return find()
    except OSError:
        raise CommandError(
            "this system has no /proc to find servers in",
            hint="pkafka.pid in the first log directory has the id",
        ) from None


def _settings(server: Server) -> _BrokerSettings:
    """The settings of a broker that runs, read as it reads its command line."""
    from pkafka.cli.kit.options import parse_assignments
    from pkafka.cli.kit.server_arguments import read_server_arguments
    from pkafka.java.properties import PropertiesError, decode_properties

    arguments = read_server_arguments(server.arguments)
    file = arguments.get("properties")
    given: dict[str, str] = {}
    if file is not None:
        with suppress(OSError, PropertiesError):  # it has changed since
            given = decode_properties(server.read(file))
    with suppress(click.UsageError):
        given |= parse_assignments(arguments.get("overrides") or (), option="--override")
    return _BrokerSettings(file, given)


def _broker_text(server: Server, settings: _BrokerSettings, broker_id: int | None) -> str:
    named = "no id yet" if broker_id is None else f"id {broker_id}"
    file = "no file" if settings.file is None else str(settings.file)
    data = ",".join(server.log_directories())
    return _text(server, ", ".join([named, file, *([f"data in {data}"] if data else [])]))


def _text(server: Server, what: str) -> str:
    return f"pid {server.pid} ({what}, runs in {server.directory or 'an unknown directory'})"


def _stop(
    found: Sequence[_Found], running: Sequence[Server], *, kind: str, nothing: str, stop_all: bool
) -> int:
    if not found:
        line(nothing)
        others = [str(each.pid) for each in running if not each.may_be_signalled]
        if others:
            note(f"another user's, which only that user or root can stop: pid {', '.join(others)}")
        return 1
    if len(found) > 1 and not (stop_all or compat_39()):
        raise CommandError(
            f"{len(found)} {kind} run here, none was stopped: {'; '.join(each.text for each in found)}",
            hint="--all stops them all, kill PID one of them",
        )
    try:
        send_signal([each.server.pid for each in found], os.environ.get("SIGNAL") or "TERM")
    except (ValueError, PermissionError) as error:
        raise CommandError(f"cannot stop it: {error}") from None
    return 0


if __name__ == "__main__":
    main()
