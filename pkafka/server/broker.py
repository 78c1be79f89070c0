"""The composition root: from a configuration to a running broker.

What can be refused is refused here, before any process is forked and before any file is changed: a busy port, a locked
or foreign directory. The order of starting and stopping lies with the supervisor.
"""

import contextlib
import logging
import os
import resource
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from pkafka.errors import ConfigError, PkafkaError, StorageError
from pkafka.net.listener import AddressInUseError, bind_for_workers
from pkafka.security.zookeeper_login import check_protection
from pkafka.security.zookeeper_tls import zookeeper_tls
from pkafka.server.config.broker_config import BrokerConfig, socket_buffer_bytes
from pkafka.server.config.metrics_access import metrics_access
from pkafka.server.control.adoption import AdoptionRefused, find_topics
from pkafka.server.control.identity import IdentityConflict, check_directories
from pkafka.server.ipc.child import CLEANER, CONTROL, worker_name
from pkafka.server.limits.connection_limits import LimitSettings, SharedCounts
from pkafka.server.limits.rate_table import RateTable
from pkafka.server.limits.replication_quota import SharedReplicationRates
from pkafka.server.metrics.access import PageAccess
from pkafka.server.policies import Policies
from pkafka.server.processes import cleaner, control, worker
from pkafka.server.processes.supervisor import Supervisor
from pkafka.server.processes.worker_setup import WorkerSetup
from pkafka.server.replication.directory_moves import move_rate
from pkafka.server.security import authorizer
from pkafka.server.security.encryption import Encryption
from pkafka.server.security.tickets import check_keytabs
from pkafka.storage.files import OsFiles
from pkafka.storage.log_directory import LogDirectory

log = logging.getLogger(__name__)

STORE_FILE: Final = "pkafka-store.sqlite"
SESSION_FILE: Final = "pkafka-session"
"""The embedded coordination store, in the first log directory; Apache Kafka ignores plain files there."""
PID_FILE: Final = "pkafka.pid"


class StartRefused(PkafkaError):
    """The broker cannot start; the message is one line that says what to do."""


CERTIFICATE_LEFT_MIN: Final = timedelta(days=7)
"""The operator is told of a certificate that ends earlier."""
FILES_OF_ACTIVE_SEGMENT: Final = 3
FILES_BESIDES_PARTITIONS: Final = 1_000
"""Connections, files of inactive segments that are being read, what the process has anyway."""


@dataclass(frozen=True, slots=True)
class BoundListener:
    """A listener whose sockets are open."""

    name: str
    host: str
    port: int
    sockets: list[socket.socket]


def run_broker(
    config: BrokerConfig, *, on_ready: Callable[[Mapping[str, Any]], None], adopt: bool = False
) -> int:
    """Run a broker until it is stopped. Blocks; forks.

    Args:
        config: all settings.
        on_ready: called once when clients are served, with ``broker_id``, ``cluster_id`` and ``listeners``.
        adopt: rebuild the embedded store from the partitions that an Apache Kafka left in the log directories.

    Returns:
        0 after a clean stop.

    Raises:
        StartRefused: nothing was started and no data was changed.
    """
    raise_open_file_limit()
    try:
        limits = LimitSettings.of(config)
        Policies.check(config)
        encryption = Encryption(config)
        if config.zookeeper_connect is not None:
            zookeeper_tls(config.originals)
            check_protection(protects=config.zookeeper_set_acl)
        authorizer.check(config)
        check_keytabs(config)
        PageAccess(metrics_access(config))
    except ConfigError as error:
        raise StartRefused(str(error)) from None
    _warn_of_certificates(encryption)
    # First of all: this waits for the children of a broker that was killed, which still hold its ports.
    directories, unusable = _open_directories(config)
    _check_open_file_limit(config, directories)
    listeners = _bind(config)
    try:
        if adopt:
            _check_adoption(config, directories)
        else:
            _refuse_foreign_data(config, directories)
        return _supervise(config, listeners, limits, encryption, directories, unusable, on_ready, adopt=adopt)
    finally:
        for listener in listeners:
            for sock in listener.sockets:
                sock.close()


def _warn_of_certificates(encryption: Encryption) -> None:
    now = datetime.now(UTC)
    for listener, end in encryption.expiries().items():
        if end < now + CERTIFICATE_LEFT_MIN:
            verb = "ended" if end < now else "ends"
            log.warning(
                "The certificate of the listener %s %s on %s: clients do not trust it after that",
                listener,
                verb,
                end.strftime("%Y-%m-%d %H:%M UTC"),
            )


def raise_open_file_limit() -> None:
    """Every segment is several open files: take what the hard limit allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _check_open_file_limit(config: BrokerConfig, directories: list[LogDirectory]) -> None:
    with contextlib.suppress(StorageError):
        partitions = sum(directory.count_partitions() for directory in directories)
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        problem = open_file_limit_problem(limit, partitions, config.workers)
        if problem is not None:
            log.warning("%s", problem)


def open_file_limit_problem(limit: int, partitions: int, workers: int) -> str | None:
    """What to tell of a limit of open files that the partitions will reach; None when there is room.

    Args:
        limit: of one process.
        partitions: on all disks.
        workers: that share them.
    """
    needed = FILES_OF_ACTIVE_SEGMENT * -(-partitions // workers) + FILES_BESIDES_PARTITIONS
    if limit == resource.RLIM_INFINITY or limit >= needed:
        return None
    return (
        f"A process may open {limit} files; with {partitions} partitions on {workers} workers it may need {needed}:"
        " raise the hard limit (ulimit -Hn), or connections will have to wait"
    )


def _bind(config: BrokerConfig) -> list[BoundListener]:
    bound: list[BoundListener] = []
    for listener in config.listeners:
        try:
            sockets = bind_for_workers(
                listener.host,
                listener.port,
                workers=config.workers,
                backlog=config.socket_listen_backlog_size,
                receive_buffer_bytes=socket_buffer_bytes(config, "socket.receive.buffer.bytes"),
            )
        except AddressInUseError:
            raise StartRefused(
                f"port {listener.port} is in use: stop what listens there, or choose another with"
                f" --override listeners={listener.name}://{listener.host or 'localhost'}:{listener.port + 1}"
            ) from None
        except OSError as error:
            raise StartRefused(f"cannot listen on {listener}: {error.strerror or error}") from None
        bound.append(BoundListener(listener.name, listener.host, sockets[0].getsockname()[1], sockets))
    return bound


def _open_directories(config: BrokerConfig) -> tuple[list[LogDirectory], list[Path]]:
    """Lock the log directories: those that this broker has now, and those that cannot be used."""
    directories: list[LogDirectory] = []
    problems: dict[Path, str] = {}
    for path in config.log_dirs:
        try:
            directory = LogDirectory(path, files=OsFiles())
            directory.lock()
        except (StorageError, OSError) as error:
            problems[path.absolute()] = str(error)
            continue
        directories.append(directory)
    if not directories:
        raise StartRefused("no log directory can be used: " + "; ".join(problems.values()))
    first = config.log_dirs[0].absolute()
    if first in problems and config.zookeeper_connect is None:
        raise StartRefused(f"the first log directory holds the coordination store: {problems[first]}")
    for problem in problems.values():
        log.error("A log directory cannot be used, its replicas stay offline: %s", problem)
    return directories, list(problems)


def _check_adoption(config: BrokerConfig, directories: list[LogDirectory]) -> None:
    if config.zookeeper_connect is not None:
        raise StartRefused(
            "--adopt is for the embedded store; with zookeeper.connect the cluster knows its partitions:"
            " leave one of the two out"
        )
    try:
        check_directories({directory.path: directory.broker_metadata() for directory in directories})
        find_topics(directories)
    except (AdoptionRefused, IdentityConflict, StorageError, OSError) as error:
        raise StartRefused(f"cannot adopt: {error}") from None


def _refuse_foreign_data(config: BrokerConfig, directories: list[LogDirectory]) -> None:
    if config.zookeeper_connect is not None or (directories[0].path / STORE_FILE).exists():
        return
    for directory in directories:
        found = directory.partitions()
        if found:
            raise StartRefused(
                f"{directory.path} holds {len(found)} partitions of a Kafka cluster that this broker knows nothing of:"
                " start it with that cluster's zookeeper.connect, or with --adopt to take the partitions over"
            )


def _supervise(
    config: BrokerConfig,
    listeners: list[BoundListener],
    limits: LimitSettings,
    encryption: Encryption,
    directories: list[LogDirectory],
    unusable: list[Path],
    on_ready: Callable[[Mapping[str, Any]], None],
    *,
    adopt: bool,
) -> int:
    try:
        clean = {
            directory.path: directory.take_clean_shutdown_mark() is not None for directory in directories
        }
    except StorageError as error:
        raise StartRefused(str(error)) from None
    control_setup = control.ControlSetup(
        config=config,
        directories=directories,
        ports={listener.name: listener.port for listener in listeners},
        store_file=directories[0].path / STORE_FILE,
        session_file=directories[0].path / SESSION_FILE,
        adopt=adopt,
        encryption=encryption,
    )
    mains = {CONTROL: control.main(control_setup)}
    counts = SharedCounts(
        workers=config.workers,
        listeners=[listener.name for listener in listeners],
        rate_samples=config.quota_window_num,
        rate_window_ms=config.quota_window_size_seconds * 1000,
    )
    replication_rates = SharedReplicationRates.of(config)
    client_rates = RateTable(
        samples=config.quota_window_num, window_ms=config.quota_window_size_seconds * 1000
    )
    copying = move_rate(
        samples=config.alter_log_dirs_replication_quota_window_num,
        window_ms=config.alter_log_dirs_replication_quota_window_size_seconds * 1000,
    )
    for index in range(config.workers):
        setup = WorkerSetup(
            config=config,
            index=index,
            workers=config.workers,
            listeners=[(listener.name, listener.sockets) for listener in listeners],
            connection_counts=counts,
            limits=limits,
            directories=directories,
            unusable=unusable,
            clean=clean,
            replication_rates=replication_rates,
            client_rates=client_rates,
            move_rate=copying,
            encryption=encryption,
        )
        mains[worker_name(index)] = worker.main(setup)
    mains[CLEANER] = cleaner.main(
        cleaner.CleanerSetup(config=config, directories=directories, workers=config.workers)
    )
    pid_file = directories[0].path / PID_FILE
    try:
        pid_file.write_text(f"{os.getpid()}\n", encoding="ascii")
    except OSError as error:
        log.warning("Cannot write %s: %s", pid_file, error)

    def stopped(cleanly: bool, failed: frozenset[str]) -> None:
        _remove(pid_file)
        for directory in directories:
            if cleanly and str(directory.path) not in failed:
                with contextlib.suppress(StorageError, OSError):
                    directory.write_clean_shutdown_mark()

    silence_max_s = config.heartbeat_timeout_ms / 1000
    return Supervisor(mains, on_ready=on_ready, on_stopped=stopped, silence_max_s=silence_max_s).run()


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()
