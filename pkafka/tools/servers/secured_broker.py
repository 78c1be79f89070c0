"""A secured broker of its own, for tests and for development: with certificates, users and ACLs."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from pkafka.tools.servers.local_broker import Broker
from pkafka.tools.servers.security import ADMIN, Security


class SecuredBroker(Broker):
    """A :class:`Broker` that lets in users only; ``admin`` may do everything, others what ACLs allow.

    Args:
        directory: gets what a broker's gets, certificates, and files for clients of each user.
        overrides: see :class:`Broker`.
        security: ``ssl``, ``sasl_plaintext`` or ``sasl_ssl``.
        passwords: of users, by name; ``admin``, ``alice`` and ``bob`` are there in any case, and get a random one.

    Raises:
        UsersError, CertificatesError, OSError: see :class:`~pkafka.tools.servers.security.Security`.
    """

    def __init__(
        self,
        directory: Path,
        overrides: Mapping[str, object] | None = None,
        *,
        security: str = "sasl_ssl",
        passwords: Mapping[str, str] | None = None,
    ) -> None:
        self._security = Security(directory.absolute(), security.upper(), passwords)
        super().__init__(
            directory,
            overrides,
            protocol=self._security.protocol,
            properties=self._security.broker_properties,
        )
        self._security.add_users(self.log_dir, overrides or {})

    @property
    def users(self) -> tuple[str, ...]:
        """Who is let in."""
        return self._security.users

    def start(self, *arguments: str) -> None:
        """Start as every broker, and write the files for clients; see :meth:`Broker.start`."""
        super().start(*arguments)
        self._security.write_client_files(self.bootstrap)

    def client_config(self, user: str = ADMIN) -> dict[str, str]:
        """A configuration for clients in Python, those of pkafka and of confluent-kafka.

        Raises:
            UsersError: there is no such user.
        """
        return {"bootstrap.servers": self.bootstrap, **self._security.client_config(user)}

    def client_properties(self, user: str = ADMIN) -> Path:
        """The file for ``--command-config`` and for clients in Java.

        Raises:
            UsersError: there is no such user.
        """
        return self._security.client_properties(user)

    def librdkafka_conf(self, user: str = ADMIN) -> Path:
        """The file for ``kcat -F``.

        Raises:
            UsersError: there is no such user.
        """
        return self._security.librdkafka_conf(user)


@contextlib.contextmanager
def running_secured_broker(
    directory: Path | None = None,
    overrides: Mapping[str, object] | None = None,
    *,
    security: str = "sasl_ssl",
    passwords: Mapping[str, str] | None = None,
) -> Iterator[SecuredBroker]:
    """A started broker, killed on leaving if it still runs.

    Args:
        directory: kept afterwards; None makes a temporary one and removes it.
        overrides, security, passwords: see :class:`SecuredBroker`.

    Raises:
        BrokerStartError: see :meth:`Broker.start`.
        UsersError, CertificatesError: see :class:`SecuredBroker`.
    """
    home = directory or Path(tempfile.mkdtemp(prefix="pkafka-"))
    try:
        broker = SecuredBroker(home, overrides, security=security, passwords=passwords)
        try:
            broker.start()
            yield broker
        finally:
            broker.kill()
    finally:
        if directory is None:
            shutil.rmtree(home, ignore_errors=True)
