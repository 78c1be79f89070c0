"""What makes a throw-away cluster a secured one: certificates, users with passwords, and files for brokers and clients.

Passwords stand in files that only their owner can read, and nowhere else: not on a command line, not in a log.
"""

import contextlib
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pkafka.errors import PkafkaError
from pkafka.java.properties import format_properties
from pkafka.net.scram import ITERATIONS_DEFAULT, ScramMechanism
from pkafka.security.jaas import format_jaas
from pkafka.tools.servers.authority import AUTHORITY_FILE, make_certificates, own_hosts, write_private

if TYPE_CHECKING:
    from pkafka.coordination.store import Store

PROTOCOLS: Final = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
ADMIN: Final = "admin"
"""The super user for people."""
BROKER: Final = "broker"
"""Whom brokers act for when they talk to each other."""
DEFAULT_USERS: Final = (ADMIN, "alice", "bob")
FOLDER: Final = "security"
USERS_FOLDER: Final = "users"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_PASSWORD_BYTES: Final = 18
_SCRAM: Final = ScramMechanism.SCRAM_SHA_512
_PACKAGE: Final = "org.apache.kafka.common.security"
_SCRAM_MODULE: Final = f"{_PACKAGE}.scram.ScramLoginModule"
_PLAIN_MODULE: Final = f"{_PACKAGE}.plain.PlainLoginModule"
_AUTHORIZER: Final = "kafka.security.authorizer.AclAuthorizer"


class UsersError(PkafkaError):
    """The users of a cluster cannot be these; the text has nothing of a password."""


class Security:
    """The secrets of one cluster, which are made with it.

    Users are known by a password, for SCRAM-SHA-512 and for PLAIN, or with protocol SSL by a certificate of their
    name. ``admin`` may do everything, all others what rules (ACLs) allow.

    Args:
        directory: of the cluster; the brokers' files go into its folder ``security``, the users' into ``users``.
        protocol: one of :data:`PROTOCOLS`.
        passwords: of users, by name; ``admin``, ``alice`` and ``bob`` are there in any case, and get a random one.

    Raises:
        UsersError: a name or a password cannot be one, or passwords are given where certificates are asked for.
        CertificatesError: nothing here makes certificates.
        OSError: the directory cannot be written, or has such files already.
    """

    def __init__(self, directory: Path, protocol: str, passwords: Mapping[str, str] | None = None) -> None:
        if protocol not in PROTOCOLS:
            raise ValueError(f"{protocol} is none of {', '.join(PROTOCOLS)}")
        self.protocol = protocol
        given = dict(passwords or {})
        _check_users(given, by_certificate=not self._has_logins)
        self.users = tuple(dict.fromkeys((*DEFAULT_USERS, *given)))
        self._passwords = {
            user: given.get(user) or secrets.token_urlsafe(_PASSWORD_BYTES) for user in (*self.users, BROKER)
        }
        self._folder = directory / FOLDER
        self._folder.mkdir(parents=True, mode=0o700)
        if self._has_tls:
            clients = () if self._has_logins else self.users
            make_certificates(self._folder, {BROKER: own_hosts(), **dict.fromkeys(clients, ())})
        self.broker_properties = self._folder / "broker.properties"
        write_private(self.broker_properties, format_properties(self._broker_settings()))

    @property
    def _has_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def _has_logins(self) -> bool:
        return self.protocol.startswith("SASL")

    def add_users(self, data: Path, settings: Mapping[str, object]) -> None:
        """Store the credentials of SCRAM before a broker runs: the first one has to log in at others.

        Args:
            data: the data directory of a broker that has no ZooKeeper; made where it is missing.
            settings: keys that win over the brokers' own; ``zookeeper.connect`` and ``log.dirs`` say where the store
                is.

        Raises:
            StoreError: the store failed.
            OSError: the data directory cannot be made.
        """
        if not self._has_logins:
            return
        from pkafka.tools.zookeeper.configs import USERS, ZookeeperEntity, alter, credential

        with contextlib.closing(_store(data, settings)) as store:
            for user, password in self._passwords.items():
                value = credential(_SCRAM, password.encode(), ITERATIONS_DEFAULT)
                entity = ZookeeperEntity(USERS, user)
                alter(store, entity, {_SCRAM.mechanism_name: value}, [], dry_run=False)

    def write_client_files(self, bootstrap: str) -> None:
        """Write the two files of each user, once it is known where the brokers listen."""
        for user in self.users:
            self.client_properties(user).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            servers = {"bootstrap.servers": bootstrap}
            texts = {
                self.client_properties(user): format_properties({**servers, **self._java_keys(user)}),
                self.librdkafka_conf(user): _lines({**servers, **self.client_config(user)}),
            }
            for path, text in texts.items():
                temporary = path.with_suffix(".tmp")
                temporary.unlink(missing_ok=True)
                write_private(temporary, text)
                temporary.replace(path)  # a client that begins meanwhile reads the old one, or the new one

    def client_properties(self, user: str) -> Path:
        """The file for commands and for clients in Java: Kafka's own keys."""
        return client_properties(self._folder.parent, self._known(user))

    def librdkafka_conf(self, user: str) -> Path:
        """The file for kcat -F and its like."""
        return self.client_properties(user).with_name("librdkafka.conf")

    def client_config(self, user: str) -> dict[str, str]:
        """Keys by which a user's client is let in: those of librdkafka, which clients of pkafka take, too.

        Raises:
            UsersError: there is no such user.
        """
        keys = {"security.protocol": self.protocol}
        if self._has_tls:
            keys["ssl.ca.location"] = str(self._folder / AUTHORITY_FILE)
        if self._has_logins:
            password = self._passwords[self._known(user)]
            return keys | {
                "sasl.mechanism": _SCRAM.mechanism_name,
                "sasl.username": user,
                "sasl.password": password,
            }
        own = str(self._folder / f"{self._known(user)}.pem")
        return keys | {"ssl.certificate.location": own, "ssl.key.location": own}

    def _known(self, user: str) -> str:
        if user not in self.users:
            raise UsersError(f"there is no user {user}: {', '.join(self.users)}")
        return user

    def _java_keys(self, user: str) -> dict[str, str]:
        keys = {"security.protocol": self.protocol, **self._truststore()}
        if self._has_logins:
            options = {"username": user, "password": self._passwords[user]}
            keys["sasl.mechanism"] = _SCRAM.mechanism_name
            keys["sasl.jaas.config"] = format_jaas(_SCRAM_MODULE, options)
        else:
            keys |= self._keystore(user)
        return keys

    def _broker_settings(self) -> dict[str, str]:
        settings = {
            "security.inter.broker.protocol": self.protocol,
            "authorizer.class.name": _AUTHORIZER,
            "super.users": f"User:{ADMIN};User:{BROKER}",
            **self._truststore(),
        }
        if self._has_tls:
            settings |= self._keystore(BROKER)
        if self._has_logins:
            return settings | self._login_settings()
        return settings | {
            "ssl.client.auth": "required",
            "ssl.principal.mapping.rules": "RULE:^CN=([^,]+)$/$1/,DEFAULT",
        }

    def _login_settings(self) -> dict[str, str]:
        prefix = f"listener.name.{self.protocol.lower()}"
        own = {"username": BROKER, "password": self._passwords[BROKER]}
        users = {f"user_{user}": password for user, password in self._passwords.items()}
        return {
            "sasl.enabled.mechanisms": f"{_SCRAM.mechanism_name},PLAIN",
            "sasl.mechanism.inter.broker.protocol": _SCRAM.mechanism_name,
            f"{prefix}.scram-sha-512.sasl.jaas.config": format_jaas(_SCRAM_MODULE, own),
            f"{prefix}.plain.sasl.jaas.config": format_jaas(_PLAIN_MODULE, users),
        }

    def _truststore(self) -> dict[str, str]:
        if not self._has_tls:
            return {}
        place = str(self._folder / AUTHORITY_FILE)
        return {"ssl.truststore.type": "PEM", "ssl.truststore.location": place}

    def _keystore(self, holder: str) -> dict[str, str]:
        place = str(self._folder / f"{holder}.pem")
        return {"ssl.keystore.type": "PEM", "ssl.keystore.location": place}


def client_properties(directory: Path, user: str = ADMIN) -> Path:
    """Where a secured cluster in a directory has a user's client.properties; librdkafka.conf lies beside it."""
    return directory / USERS_FOLDER / user / "client.properties"


def _store(data: Path, settings: Mapping[str, object]) -> "Store":
    from pkafka.coordination.embedded import STORE_FILE, EmbeddedStore
    from pkafka.coordination.zookeeper import ZooKeeperStore

    zookeeper = settings.get("zookeeper.connect")
    if zookeeper is not None:
        return ZooKeeperStore(str(zookeeper), create_chroot=True)
    first = Path(str(settings.get("log.dirs", data)).partition(",")[0].strip())
    first.mkdir(parents=True, exist_ok=True)
    return EmbeddedStore(first / STORE_FILE)


def _check_users(passwords: Mapping[str, str], *, by_certificate: bool) -> None:
    if passwords and by_certificate:
        raise UsersError("users have certificates in place of passwords with SSL; passwords go with SASL")
    for user, password in passwords.items():
        if user == BROKER or not _NAME.fullmatch(user):
            taken = (
                "is the brokers' own" if user == BROKER else "has other signs than letters, digits and . _ -"
            )
            raise UsersError(f"{user!r} cannot be the name of a user: it {taken}")
        if not password or password != password.strip() or not password.isprintable():
            raise UsersError(
                f"the password of {user} is empty, begins or ends with a blank, or has a sign that cannot be printed"
            )


def _lines(keys: Mapping[str, str]) -> str:
    return "".join(f"{key}={value}\n" for key, value in keys.items())
