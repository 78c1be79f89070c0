"""Both systems with an authorizer, and a client whose rights a test sets: it comes from an address of its own.

Without logins every client is User:ANONYMOUS, so rules tell clients apart by their hosts. What comes from 127.0.0.1 may
do everything: the test itself, and Apache Kafka's broker, which sends requests to itself.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pkafka.coordination.znodes_security import AclEntry, ResourceAcls
from pkafka.coordination.zookeeper import ZooKeeperStore
from pkafka.protocol.schema import Message
from pkafka.security.acl import ResourceType
from pkafka.testing import running_broker
from pkafka.tools.zookeeper.server import running_server
from tests.acl_rules import ADMIN, ANONYMOUS, AUTHORIZER, EVERYTHING, SUBJECT
from tests.interop.conftest import SAME_SETTINGS, SYSTEMS, System
from tests.interop.kafka import KafkaBroker
from tests.raw_client import RawClient


def open_store(zookeeper: str, chroot: str, opened: Sequence[ResourceType]) -> None:
    """Let everything in that comes from the broker's own address."""
    entry = AclEntry(ANONYMOUS, "Allow", ADMIN, "All")
    with ZooKeeperStore(zookeeper) as store:
        for kind, name in EVERYTHING:
            if kind not in opened:
                continue
            path = ResourceAcls.path(kind.title, name)
            store.create(chroot + path, ResourceAcls((entry,)).encode(), make_parents=True)


@contextlib.contextmanager
def guarded_systems(
    directory: Path,
    class_path: str,
    settings: Mapping[str, object] | None = None,
    *,
    opened: Sequence[ResourceType] = tuple(ResourceType),
) -> Iterator[list[System]]:
    """Run Apache Kafka and pkafka, each with its own part of one ZooKeeper.

    Args:
        settings: of both brokers, beside the authorizer.
        opened: the types of resources to which the broker's own address may do everything by a rule.
    """
    overrides = {**SAME_SETTINGS, "authorizer.class.name": AUTHORIZER, **(settings or {})}
    with contextlib.ExitStack() as stack:
        _process, port = stack.enter_context(running_server(directory, jars=Path(class_path).parent))
        zookeeper = f"127.0.0.1:{port}"
        systems: list[System] = []
        for name in SYSTEMS:
            open_store(zookeeper, f"/{name}", opened)
            if name == "kafka":
                kafka = KafkaBroker(
                    class_path, f"{zookeeper}/kafka", directory / "kafka", overrides=overrides
                )
                stack.callback(kafka.kill)
                kafka.start()
                systems.append(kafka)
            else:
                ours = {**overrides, "zookeeper.connect": f"{zookeeper}/pkafka", "pkafka.workers": 2}
                systems.append(stack.enter_context(running_broker(directory / "pkafka", ours)))
        yield systems


def ask_as_subject(system: System, request: Message, version: int) -> Any:
    """The answer to the client."""
    with RawClient(system.bootstrap, timeout_s=30, source=SUBJECT) as client:
        return client.call(request, version)
