"""How the store speaks to kazoo: its client made and ended, the store's operations as its requests, its errors as ours.

kazoo is imported when it is first used. It has no annotations: what it hands over is :data:`Untyped`.
"""

import contextlib
import functools
import logging
import math
import select
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pkafka.coordination.store import (
    BadVersionError,
    CheckOp,
    ConnectionLossError,
    CreateOp,
    DeleteOp,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Op,
    SessionExpiredError,
    SetOp,
    Stat,
    StoreAccessError,
    StoreError,
)
from pkafka.coordination.zookeeper_access import ZooKeeperLogin
from pkafka.errors import PkafkaError

if TYPE_CHECKING:
    from kazoo.client import KazooClient

Untyped: TypeAlias = Any
"""What kazoo, which has no annotations, hands over."""

_UNSEEN: Final = logging.NullHandler()
_CLOSE_TIMEOUT_S: Final = 10.0
_GREETINGS_IN_SESSION: Final = 4
"""How often a client can offer its session to servers that do not answer before the session is over."""
logger = logging.getLogger("pkafka.coordination.zookeeper")  # the name that operators know


def new_client(
    hosts: str,
    timeout_s: float,
    resume: tuple[int, bytes] | None,
    tls: "TlsConnections | None",
    login: ZooKeeperLogin | None = None,
) -> "KazooClient":
    from kazoo.client import KazooClient

    # What happens to the connection is told by states and errors. Where a program has set up logging it gets kazoo's
    # lines too; otherwise they are not for standard error, where Python would put them.
    logging.getLogger("kazoo").addHandler(_UNSEEN)
    client = KazooClient(
        hosts=hosts,
        handler=new_handler(tls),
        timeout=timeout_s,
        client_id=resume,
        # For ever: only the server may say that the session is over, however long an election there takes.
        connection_retry={"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 1.0},
    )
    connect_by(connection_class(), client, login)
    return client


def connect_by(connection: Untyped, client: "KazooClient", login: ZooKeeperLogin | None) -> None:
    """Have a client that was not started yet connect by a class derived from kazoo's."""
    client._connection = connection(
        client,
        client._conn_retry.copy(),
        logger=client.logger,
        sasl_options=None if login is None else login.sasl_options(),
    )


@functools.cache
def connection_class() -> Untyped:
    """kazoo's connection, which gives a server that is silent up before the session is over.

    A server that is just starting may take a connection and neither answer nor close it (ZooKeeper 3.8: an exception on
    its thread for connections while its database is not there yet). kazoo, as Java's client, waits for as long as the
    session lasts where there is one server.
    """
    from kazoo.protocol.connection import ConnectionHandler

    class Connection(ConnectionHandler):  # type: ignore[misc]
        _session_s = math.inf
        """How long the session lasts by the server's word; until the first one it is what was asked for."""

        def _connect(self, host: str, hostip: str, port: int) -> Untyped:
            found = super()._connect(host, hostip, port)
            read_timeout_ms, _ = found
            self._session_s = read_timeout_ms * 1.5 / 1000  # of which kazoo gives two thirds
            return found

        def _invoke(self, timeout: float, request: Untyped, xid: int | None = None) -> Untyped:
            session_s = min(self.client._session_timeout / 1000, self._session_s)
            return super()._invoke(min(timeout, session_s / _GREETINGS_IN_SESSION), request, xid)

    return Connection


def new_handler(tls: "TlsConnections | None") -> Untyped:
    """How kazoo waits for its sockets and opens them."""
    from kazoo.handlers.threading import SequentialThreadingHandler

    handler = SequentialThreadingHandler()
    handler.select = _select
    if tls is not None:
        handler.create_connection = tls.open
    return handler


class TlsConnections:
    """Opens connections by TLS, with certificates as they are at that moment; kazoo's own reads PEM files alone.

    Args:
        context: makes OpenSSL's context.
    """

    def __init__(self, context: Callable[[], ssl.SSLContext]) -> None:
        self._context = context
        self.problem = ""
        """Why the last connection did not come up; empty where that has nothing to do with TLS."""

    def open(
        self,
        address: tuple[str, int],
        hostname: str | None = None,
        timeout: float | None = None,
        **_kazoos: object,
    ) -> ssl.SSLSocket:
        """As ``create_connection`` of kazoo's handlers."""
        plain = socket.create_connection(address, timeout)
        try:
            encrypted = self._context().wrap_socket(plain, server_hostname=hostname)
        except BaseException as error:
            plain.close()
            if isinstance(error, (PkafkaError, ssl.SSLError)):
                self.problem = str(error)
                raise OSError(self.problem) from error  # for kazoo, which then tries again
            raise
        self.problem = ""
        return encrypted


def stop_client(client: "KazooClient", *, keep_session: bool = False) -> None:
    """End kazoo's threads; the session too, unless it is to be kept."""
    try:
        if keep_session:
            # kazoo knows no leaving without closing the session, so its socket is cut under it.
            client._stopped.set()
            connected = client._connection._socket
            if connected is not None:
                with contextlib.suppress(OSError):
                    connected.shutdown(socket.SHUT_RDWR)
            client.handler.stop()
            client._connection.stop(_CLOSE_TIMEOUT_S)
        else:
            client.stop()
        client.close()
    except Exception:  # kazoo raises bare Exception when its thread does not end
        logger.warning("the ZooKeeper connection did not end in order", exc_info=True)


def _select(
    readers: Sequence[socket.socket],
    writers: Sequence[socket.socket],
    _: Sequence[socket.socket],
    timeout: float | None = None,
) -> tuple[list[socket.socket], list[socket.socket], list[socket.socket]]:
    """``select.select`` by poll(2): one system call, where kazoo's own makes an epoll each time (half its time)."""
    buffered = [each for each in readers if isinstance(each, ssl.SSLSocket) and each.pending()]
    if buffered:
        timeout = 0  # what TLS has taken from the socket already, poll does not see
    poller = select.poll()
    wanted: dict[int, int] = {}
    for each in readers:
        wanted[each.fileno()] = select.POLLIN
    for each in writers:
        wanted[each.fileno()] = wanted.get(each.fileno(), 0) | select.POLLOUT
    for fileno, events in wanted.items():
        poller.register(fileno, events)
    ready = dict(poller.poll(None if timeout is None else math.ceil(timeout * 1000)))
    # An error or a hang-up makes a socket ready for both, so that the next call on it meets the reason.
    return (
        [each for each in readers if each in buffered or ready.get(each.fileno(), 0) & ~select.POLLOUT],
        [each for each in writers if ready.get(each.fileno(), 0) & ~select.POLLIN],
        [],
    )


Rights: TypeAlias = Callable[[str], Untyped]
"""Gives kazoo's ACL of a new node by its full path; None: everybody may do everything."""


def committing(ops: Sequence[Op], rights: Rights) -> "Callable[[KazooClient], Untyped]":
    return lambda client: _transaction(client, ops, rights).commit_async()


def _transaction(client: "KazooClient", ops: Sequence[Op], rights: Rights) -> Untyped:
    transaction = client.transaction()
    for op in ops:
        match op:
            case CreateOp():
                transaction.create(
                    op.path, op.data, acl=rights(op.path), ephemeral=op.ephemeral, sequence=op.sequential
                )
            case SetOp():
                transaction.set_data(op.path, op.data, op.version)
            case DeleteOp():
                transaction.delete(op.path, op.version)
            case CheckOp():
                transaction.check(op.path, op.version)
    return transaction


def getting(full: str) -> "Callable[[KazooClient], Untyped]":
    return lambda client: client.get_async(full)


def creating(full: str, rights: Rights) -> "Callable[[KazooClient], Untyped]":
    return lambda client: client.create_async(full, b"", rights(full))


def stat_of(answer: Untyped) -> Stat:
    return Stat(
        czxid=answer.czxid,
        mzxid=answer.mzxid,
        ctime_ms=answer.ctime,
        mtime_ms=answer.mtime,
        version=answer.version,
        cversion=answer.cversion,
        ephemeral_owner=answer.ephemeralOwner,
        data_length=answer.dataLength,
        num_children=answer.numChildren,
        pzxid=answer.pzxid,
        aversion=answer.aversion,
    )


def translated(error: BaseException, path: str) -> StoreError:
    """The port's error for one of kazoo's."""
    from kazoo import exceptions as kazoo

    table: tuple[tuple[type[BaseException], type[StoreError]], ...] = (
        (kazoo.NoNodeError, NoNodeError),
        (kazoo.NodeExistsError, NodeExistsError),
        (kazoo.BadVersionError, BadVersionError),
        (kazoo.NotEmptyError, NotEmptyError),
        (kazoo.NoChildrenForEphemeralsError, NoChildrenForEphemeralsError),
        (kazoo.SessionExpiredError, SessionExpiredError),
        (kazoo.NoAuthError, StoreAccessError),
        (kazoo.AuthFailedError, StoreAccessError),
        (kazoo.InvalidACLError, StoreAccessError),
        (kazoo.ConnectionLoss, ConnectionLossError),
        (kazoo.ConnectionClosedError, ConnectionLossError),
        (kazoo.OperationTimeoutError, ConnectionLossError),
        (kazoo.SessionMovedError, ConnectionLossError),
        (TimeoutError, ConnectionLossError),
        (kazoo.KazooException, StoreError),
    )
    for theirs, ours in table:
        if isinstance(error, theirs):
            translated = ours(path)
            return translated if ours is not StoreError else StoreError(path, f"{error!r} for {path}")
    return ConnectionLossError(path)  # kazoo's own time-out class
