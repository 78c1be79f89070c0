"""pk-zookeeper-security-migration: protect the nodes that a cluster has in ZooKeeper already, or open them again.

As zookeeper-security-migration.sh of Kafka 3.9.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.cli.kit.kafka_command import CommandError
from pkafka.cli.kit.options import command, text_output_option
from pkafka.cli.kit.output import OutputFormat, View, line, note, show

if TYPE_CHECKING:
    import ssl

    from pkafka.coordination.administration import Acl, KeeperError
    from pkafka.coordination.zookeeper_access import ZooKeeperLogin
    from pkafka.coordination.zookeeper_session import ZooKeeperSession
    from pkafka.tools.zookeeper.protection import Change, Migration

_TIMEOUT_MS: Final = 30_000
_SECURE: Final = "secure"
_UNSECURE: Final = "unsecure"
_FOR_CERTIFICATES: Final = (
    "zookeeper.ssl.client.enable",
    "zookeeper.clientCnxnSocket",
    "zookeeper.ssl.keystore.location",
)
_PROPERTY: Final = "java.security.auth.login.config"
_LOGIN_HINT: Final = f"see -D{_PROPERTY} in KAFKA_OPTS"


class _Door(NamedTuple):
    """How to get into ZooKeeper."""

    connect: str
    session_timeout_ms: int
    connection_timeout_ms: int
    tls: "Callable[[], ssl.SSLContext] | None"
    login: "ZooKeeperLogin | None"


@command("pk-zookeeper-security-migration")
@click.option(
    "--zookeeper.acl",
    "wanted",
    metavar="secure|unsecure",
    help="Make the nodes the user's own that this command logs in as, or open them to everybody.",
)
@click.option(
    "--zookeeper.connect",
    "connect",
    metavar="HOST:PORT[,...][/CHROOT]",
    default="localhost:2181",
    help="As zookeeper.connect of the brokers. Default localhost:2181.",
)
@click.option(
    "--zookeeper.session.timeout",
    "session_timeout_ms",
    metavar="MS",
    type=click.IntRange(min=1),
    default=_TIMEOUT_MS,
    help=f"How long the session outlives its connection, and how long to wait for an answer. Default {_TIMEOUT_MS}.",
)
@click.option(
    "--zookeeper.connection.timeout",
    "connection_timeout_ms",
    metavar="MS",
    type=click.IntRange(min=1),
    default=_TIMEOUT_MS,
    help=f"How long to wait for a connection. Default {_TIMEOUT_MS}.",
)
@click.option(
    "--enable.path.check",
    "path_check",
    is_flag=True,
    help="End without a change below the chroot where a subtree of a cluster is not there.",
)
@click.option(
    "--zk-tls-config-file",
    "tls_file",
    metavar="FILE",
    help="Properties file with zookeeper.ssl.client.enable and the rest of zookeeper.ssl.*.",
)
@click.option("--dry-run", is_flag=True, help="Say which nodes would be changed, and change none.")
@text_output_option
def main(
    wanted: str | None,
    connect: str,
    session_timeout_ms: int,
    connection_timeout_ms: int,
    path_check: bool,
    tls_file: str | None,
    dry_run: bool,
    output: str | None,
) -> None:
    """Protect the nodes of a cluster in ZooKeeper, or open them again.

    zookeeper.set.acl is about nodes that brokers make from then on; this is for those that are there. It logs in by the
    section Client of the file that -Djava.security.auth.login.config in KAFKA_OPTS names, or by a certificate.
    """
    if wanted not in (_SECURE, _UNSECURE):
        raise click.UsageError(f"--zookeeper.acl has to be '{_SECURE}' or '{_UNSECURE}'")
    form = OutputFormat(output) if output else OutputFormat.TEXT
    tls, login = _identity(tls_file, form)
    door = _Door(connect, session_timeout_ms, connection_timeout_ms, tls, login)
    from pkafka.tools.zookeeper.protection import Migration

    with _session(door, form) as nodes:
        migration = Migration(nodes, secure=wanted == _SECURE, dry_run=dry_run)
        missing: list[str] = []
        changes = []
        for change in _changes(migration, missing, form, connect, path_check=path_check):
            changes.append(change)
            if form is OutputFormat.TEXT:
                _tell(change, dry_run=dry_run)
    if form is not OutputFormat.TEXT:
        show(
            View("nodes", [], [_row(each) for each in changes], {"missing": missing, "dry_run": dry_run}),
            form,
        )
    failed = [each for each in changes if each.error is not None]
    if failed:
        assert failed[0].error is not None
        raise _explained(failed[0].error, f"{len(failed)} of {len(changes)} nodes could not be changed: ")


def _changes(
    migration: "Migration", missing: list[str], form: OutputFormat, connect: str, *, path_check: bool
) -> "Iterator[Change]":
    """All changes, with what Kafka's tool says between the first and the others."""
    from pkafka.coordination.administration import KeeperError
    from pkafka.tools.zookeeper.protection import Result

    try:
        above = migration.above()
        yield above
        missing += migration.missing()
        if missing:
            _warn(missing, form, ends=path_check)
        if above.result is Result.GONE:
            raise CommandError(
                f"there is no /{connect.partition('/')[2]} in ZooKeeper",
                hint="the path behind host:port has to be that of the brokers' zookeeper.connect",
            )
        yield from migration.below()
    except KeeperError as error:
        raise _explained(error) from error


def _warn(missing: list[str], form: OutputFormat, *, ends: bool) -> None:
    names = ",".join(missing)
    say = line if form is OutputFormat.TEXT else note
    say(f"Warning: The following secure root paths do not exist in ZooKeeper: {names}")
    say("That might be due to an incorrect chroot is specified when executing the command.")
    if ends:
        say("Exit the command.")
        raise CommandError(
            f"{len(missing)} of a cluster's subtrees are not in ZooKeeper", hint="see --enable.path.check"
        )


def _tell(change: "Change", *, dry_run: bool) -> None:
    """What Kafka's tool says of one node: nothing of those that it has changed."""
    from pkafka.tools.zookeeper.protection import Result

    if change.error is not None:
        line(f"Unexpected return code: {change.error.code}")
    elif change.result is Result.GONE and change.path != "/":
        note(f"{change.path} is gone; somebody has deleted it")
    elif dry_run and change.result is not Result.UNCHANGED:
        verb = "would be made, with" if change.result is Result.CREATED else "would get"
        line(f"{change.path} {verb} {_acl_text(change.acl)}")


def _identity(
    tls_file: str | None, form: OutputFormat
) -> "tuple[Callable[[], ssl.SSLContext] | None, ZooKeeperLogin | None]":
    """The certificate and the login by which this command is known; one of them has to be there.

    Raises:
        CommandError: there is neither.
        ConfigError: a file is of no use.
    """
    from pkafka.security.jaas_files import jaas_file
    from pkafka.security.zookeeper_login import zookeeper_login

    tls, has_certificate = None, False
    if tls_file is not None:
        from pkafka.java.properties import load_properties
        from pkafka.tools.zookeeper.shell import tls_settings

        properties = load_properties(tls_file)
        tls = tls_settings(properties, source=tls_file)
        has_certificate = tls is not None and all(properties.get(key) for key in _FOR_CERTIFICATES)
    file, login = jaas_file(), zookeeper_login()
    if login is None and not has_certificate:
        if file is None:
            raise CommandError(
                "No JAAS configuration file has been specified and no TLS client certificate has been specified",
                hint=f"set -D{_PROPERTY} in KAFKA_OPTS, or name a file by --zk-tls-config-file that has at least "
                f"{', '.join(_FOR_CERTIFICATES)}",
            )
        if form is OutputFormat.TEXT:
            line(f"ERROR: Security isn't enabled, most likely the file isn't set properly: {file.path}")
        raise CommandError(f"{file.path} has no section 'Client'", hint=_LOGIN_HINT)
    return tls, login


@contextmanager
def _session(door: _Door, form: OutputFormat) -> "Iterator[ZooKeeperSession]":
    from pkafka.coordination.administration import KeeperCode
    from pkafka.coordination.store import ConnectionLossError, StoreAccessError
    from pkafka.coordination.zookeeper_session import ZooKeeperSession

    try:
        session = ZooKeeperSession(
            door.connect,
            session_timeout_ms=door.session_timeout_ms,
            on_event=lambda _: None,
            tls=door.tls,
            login=door.login,
        )
    except ValueError as error:
        raise click.UsageError(f"--zookeeper.connect {door.connect}: {error}") from error
    try:
        session.wait_connected(door.connection_timeout_ms)
        yield session
    except ConnectionLossError as error:
        hint = "is a ZooKeeper server running there?"
        raise CommandError(str(error), hint=hint, status=ExitStatus.UNREACHABLE) from None
    except StoreAccessError as error:
        if form is OutputFormat.TEXT:
            line(f"Unexpected return code: {KeeperCode.AUTH_FAILED}")
        raise CommandError(str(error), hint=_LOGIN_HINT, status=ExitStatus.AUTHENTICATION) from None
    finally:
        session.close()


def _explained(error: "KeeperError", before: str = "") -> CommandError:
    from pkafka.coordination.administration import KeeperCode

    status, hint = ExitStatus.FAILURE, None
    if error.code in (KeeperCode.NO_AUTH, KeeperCode.AUTH_FAILED):
        status = ExitStatus.AUTHENTICATION
        hint = f"nodes are changed by the user whose own they are; {_LOGIN_HINT}"
    elif error.code in (KeeperCode.CONNECTION_LOSS, KeeperCode.SESSION_EXPIRED):
        status, hint = ExitStatus.UNREACHABLE, "what is not done yet, another run does"
    return CommandError(f"{before}{error}", hint=hint, status=status)


def _row(change: "Change") -> dict[str, object]:
    from pkafka.coordination.administration import code_text

    error = None
    if change.error is not None:
        error = {"code": None, "name": code_text(change.error.code), "message": str(change.error)}
    return {"path": change.path, "result": change.result.value, "acl": _acl_text(change.acl), "error": error}


def _acl_text(acl: "Iterable[Acl]") -> str:
    """As ZooKeeper's shell reads it."""
    from pkafka.tools.zookeeper.words import perms_text

    return ",".join(f"{each.scheme}:{each.id}:{perms_text(each.perms)}" for each in acl)


if __name__ == "__main__":
    main()
