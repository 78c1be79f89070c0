"""pk-server-start: run a broker in the foreground, or as a daemon."""

import contextlib
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from pkafka.cli.kit import output
from pkafka.cli.kit.daemon import Daemon, log_directory
from pkafka.cli.kit.kafka_command import CommandError
from pkafka.cli.kit.options import command, parse_assignments, parse_duration_ms
from pkafka.cli.kit.server_arguments import server_arguments

if TYPE_CHECKING:
    from pkafka.server.config.broker_config import BrokerConfig

OUTPUT_FILE: Final = "kafkaServer.out"
METRICS_PORT_VARIABLE: Final = "JMX_PORT"
_METRICS_PORT_KEY: Final = "pkafka.metrics.port"
_PORT_MAX: Final = 65_535


def _print_version() -> None:
    from pkafka import KAFKA_VERSION, __version__
    from pkafka.hot_path import is_compiled
    from pkafka.records.loops import COMPILED

    loops, path = ("compiled" if found else "pure Python" for found in (COMPILED, is_compiled()))
    output.line(
        f"pkafka {__version__} (Kafka {KAFKA_VERSION} protocol and formats; record loops: {loops}, hot path: {path})"
    )


@command(
    "pk-server-start",
    version=_print_version,
    version_help="Print the versions, and whether the record loops and the hot path are compiled.",
)
@server_arguments
def main(
    properties: Path | None,
    daemon: bool,
    wait: bool,
    timeout: str | None,
    overrides: tuple[str, ...],
    adopt: bool,
    ready_file: Path | None,
    end_with_parent: int | None,
) -> int:
    """Run a Kafka broker.

    Without a file it runs on defaults: one broker on localhost:9092, data in ./data, nothing else to start first.
    """
    if wait and not daemon:
        raise click.UsageError(
            "--wait goes with --daemon; in the foreground the command lasts as long as the broker"
        )
    if timeout is not None and not wait:
        raise click.UsageError("--timeout goes with --wait")
    wait_ms = parse_duration_ms(timeout, option="timeout") if timeout is not None else None
    settings = parse_assignments(overrides, option="--override")
    if properties is not None and not properties.is_file():
        raise click.UsageError(
            f"{properties} is not a readable file; without one the broker runs on defaults"
        )
    from pkafka.server.ipc.garbage import importing_for_good

    with importing_for_good():
        from pkafka.server.config.broker_config import BrokerConfig

    config = BrokerConfig.load(
        properties, {key: value.strip() for key, value in settings.items()}, _environment_defaults()
    )
    if ready_file is not None:
        ready_file = ready_file.absolute()
        ready_file.unlink(missing_ok=True)  # an old one says nothing about this broker
        if not ready_file.parent.is_dir():
            raise click.UsageError(f"--ready-file {ready_file}: there is no folder {ready_file.parent}")
    if end_with_parent is not None:
        from pkafka.net import parents

        parents.die_with_parent(parents.load_death_signal(), end_with_parent, signal.SIGTERM)
    if not daemon:
        _log_to(None, config.warnings)
        return _run(config, adopt=adopt, ready_file=ready_file, started=None)
    with Daemon(OUTPUT_FILE, wait=wait, wait_ms=wait_ms) as started:
        _log_to(log_directory(), config.warnings)
        return _run(config, adopt=adopt, ready_file=ready_file, started=started)


def _environment_defaults() -> dict[str, str]:
    """$JMX_PORT as Kafka's scripts take it: empty is not set; a value that is no port ends the start."""
    text = os.environ.get(METRICS_PORT_VARIABLE, "").strip()
    if not text:
        return {}
    if not (text.isascii() and text.isdigit() and int(text) <= _PORT_MAX):
        raise click.UsageError(
            f"{METRICS_PORT_VARIABLE}={text}: must be a port from 0 to {_PORT_MAX}, or not set"
        )
    return {_METRICS_PORT_KEY: text}


def _run(config: "BrokerConfig", *, adopt: bool, ready_file: Path | None, started: Daemon | None) -> int:
    from pkafka.server.ipc.garbage import importing_for_good

    with importing_for_good():
        from pkafka.server.broker import StartRefused, run_broker

    def on_ready(facts: Mapping[str, Any]) -> None:
        address = facts["listeners"][0]
        if ready_file is not None:
            temporary = ready_file.with_name(ready_file.name + ".tmp")
            temporary.write_text(f"{address}\n", encoding="utf-8")
            temporary.replace(ready_file)
        if started is not None:
            started.is_ready(f"pkafka broker {facts['broker_id']} is ready on {address}")
        _welcome(config, facts, address)

    try:
        return run_broker(config, on_ready=on_ready, adopt=adopt)
    except StartRefused as error:
        raise CommandError(str(error)) from None


def _welcome(config: "BrokerConfig", facts: Mapping[str, Any], address: str) -> None:
    activate = how_to_find_the_commands()
    store = config.zookeeper_connect or "embedded (no ZooKeeper needed)"
    lines = [
        f"pkafka broker {facts['broker_id']} is ready on {address}",
        f"  data        {', '.join(str(path) for path in config.log_dirs)}",
        f"  store       {store}",
        f"  workers     {config.workers}",
        "",
        "Try next, in another shell:",
        *([f"  {activate}"] if activate else []),
        f"  pk-topics --bootstrap-server {address} --create --topic hello",
        f"  echo 'hello, world' | pk-console-producer --bootstrap-server {address} --topic hello",
        f"  pk-console-consumer --bootstrap-server {address} --topic hello --from-beginning",
        "",
        "Stop with Ctrl-C or pk-server-stop.",
    ]
    output.line("\n".join(lines))


def how_to_find_the_commands() -> str | None:
    """The command that brings the pk-* commands onto the path of a shell; None where they are on it."""
    here = Path(sys.executable).parent
    import shutil

    if shutil.which("pk-topics") or not (here / "activate").is_file():
        return None
    with contextlib.suppress(ValueError):
        return f". {(here / 'activate').relative_to(Path.cwd())}"
    return f". {here / 'activate'}"


def _log_to(directory: Path | None, warnings: tuple[str, ...]) -> None:
    """Log to files of a directory, or to standard error."""
    import logging

    from pkafka.tools.servers.broker_logging import log_to_files, log_to_standard_error

    if directory is None:
        log_to_standard_error()
    else:
        log_to_files(directory)
    for warning in warnings:
        logging.getLogger("pkafka.config").warning("%s", warning)


if __name__ == "__main__":
    main()
