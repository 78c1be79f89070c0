"""A ZooKeeper that knows users by DIGEST-MD5, and who may do what with its nodes."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from kazoo.client import KazooClient

from pkafka.tools.zookeeper.server import running_server

DIGEST: Final = "org.apache.zookeeper.server.auth.DigestLoginModule required"
PROVIDER: Final = "-Dzookeeper.authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
PASSWORD: Final = "of-kafka,1"
USERS: Final = {"kafka": PASSWORD, "other": "of-other"}


def write_jaas(file: Path, user: str = "kafka", password: str | None = None) -> str:
    """Write a JAAS file for the server and for clients of it, and return the words for ``KAFKA_OPTS``."""
    known = " ".join(f'user_{name}="{secret}"' for name, secret in USERS.items())
    file.write_text(
        f"Server {{ {DIGEST} {known}; }};\n"
        f'Client {{ {DIGEST} username="{user}" password="{password or USERS[user]}"; }};\n'
    )
    return f"-Djava.security.auth.login.config={file} {PROVIDER}"


@contextmanager
def zookeeper_with_users(directory: Path, class_path: str) -> Iterator[str]:
    """A server of Apache Kafka's jars, by ``host:port``; ``KAFKA_OPTS`` has to name its users."""
    directory.mkdir(exist_ok=True)
    with running_server(directory, jars=Path(class_path).parent) as (_, port):
        yield f"127.0.0.1:{port}"


@contextmanager
def talking(zookeeper: str) -> Iterator[KazooClient]:
    """A client that is the user ``kafka``."""
    login = {"mechanism": "DIGEST-MD5", "username": "kafka", "password": PASSWORD}
    client = KazooClient(zookeeper, sasl_options=login)
    client.start(60)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def rights(zookeeper: str, chroot: str) -> Mapping[str, set[tuple[int, str, str]]]:
    """Who may do what, by node of a cluster."""
    with talking(zookeeper) as client:
        found, waiting = {}, [f"/{chroot}"]
        while waiting:
            path = waiting.pop()
            acls, _ = client.get_acls(path)
            found[path.removeprefix(f"/{chroot}")] = {
                (each.perms, each.id.scheme, each.id.id) for each in acls
            }
            waiting += [f"{path}/{name}" for name in client.get_children(path)]
        return found
