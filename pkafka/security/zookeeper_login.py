"""The login at ZooKeeper: the section ``Client`` of the file that ``java.security.auth.login.config`` names."""

from importlib.util import find_spec
from typing import Final

from pkafka.coordination.zookeeper_access import ZooKeeperLogin
from pkafka.errors import ConfigError
from pkafka.security.jaas import JaasError
from pkafka.security.jaas_files import PROPERTY, jaas_file

_SECTION: Final = "Client"
_MODULE: Final = "DigestLoginModule"


def check_protection(*, protects: bool) -> None:
    """Check that this process can log in where it is to, and has to where its nodes are to be its own.

    Args:
        protects: ``zookeeper.set.acl``.

    Raises:
        ConfigError: it cannot.
    """
    if zookeeper_login() is None and protects:
        problem = f"needs a login at ZooKeeper: a section '{_SECTION}' with {_MODULE}, username and password"
        raise ConfigError("zookeeper.set.acl", f"{problem} in the file of -D{PROPERTY} in KAFKA_OPTS", "true")


def zookeeper_login() -> ZooKeeperLogin | None:
    """By what this process logs in at ZooKeeper; None where it does not.

    Raises:
        ConfigError: the file is of no use, or asks for what is not here.
    """
    file = jaas_file()
    if file is None or _SECTION not in file.sections:
        return None
    try:
        options = file.module((_SECTION,), _MODULE).options
    except JaasError as error:
        raise ConfigError(PROPERTY, f"{error}; logins at ZooKeeper are by DIGEST-MD5 alone") from None
    for name in ("username", "password"):
        if not options.get(name):
            raise ConfigError(PROPERTY, f"{file.path}: {_MODULE} in section '{_SECTION}' has no {name}")
    if find_spec("puresasl") is None:
        problem = f"{file.path} has a section '{_SECTION}', a login at ZooKeeper, which needs: pip install"
        raise ConfigError(PROPERTY, f"{problem} 'pkafka[zookeeper-sasl]'")
    return ZooKeeperLogin(options["username"], options["password"])
