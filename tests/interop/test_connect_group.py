"""A Java worker of Kafka Connect and a member of ours in one cluster: each leads once, and each does as it is told."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pkafka.connect.distributed.group_protocol import Compatibility
from tests.connect_members import Herd, herds
from tests.connect_workers import ConnectWorker, java_command
from tests.interop.conftest import System
from tests.talk import wait_for

TIMEOUT_S = 60.0
NAMES = ("c0", "c1", "c2")


@pytest.fixture(params=[Compatibility.SESSIONED, Compatibility.EAGER], ids=lambda each: each.name)
def compatibility(request: pytest.FixtureRequest) -> Compatibility:
    """Of both workers. Java's stops nothing when a group that runs goes over to the eager protocol."""
    return Compatibility(request.param)


@pytest.fixture
def java(
    pkafka: System | None, topic: str, tmp_path: Path, compatibility: Compatibility
) -> Iterator[ConnectWorker]:
    """A distributed worker, not started."""
    assert pkafka is not None
    settings = {
        "group.id": topic,
        "scheduled.rebalance.max.delay.ms": "500",
        "rest.advertised.host.name": "127.0.0.1",
    }
    for name in ("config", "offset", "status"):
        settings |= {f"{name}.storage.topic": f"{topic}-{name}", f"{name}.storage.replication.factor": "1"}
    settings |= {"connect.protocol": compatibility.name.lower()}
    settings |= {"offset.storage.partitions": "1", "status.storage.partitions": "1"}
    command = [*java_command(tmp_path)[:-1], "org.apache.kafka.connect.cli.ConnectDistributed"]
    worker = ConnectWorker(command, tmp_path / "java", pkafka.bootstrap, settings)
    # A distributed worker takes what begins with offset.storage for a setting of its topic.
    kept = [line for line in worker.properties.read_text().splitlines() if "file.filename" not in line]
    worker.properties.write_text("\n".join(kept) + "\n")
    yield worker
    worker.close()


@pytest.mark.nightly
def test_either_leads_and_the_other_follows(
    java: ConnectWorker, pkafka: System | None, topic: str, compatibility: Compatibility
) -> None:
    assert pkafka is not None
    java.start()
    for name in NAMES:
        file = java.directory / f"{name}.txt"
        file.touch()
        java.create({"name": name, "connector.class": "FileStreamSource", "file": str(file), "topic": topic})
    wait_for(lambda: len(running(java)) == 2 * len(NAMES), timeout_s=TIMEOUT_S)
    with herds(pkafka.bootstrap, topic, dict.fromkeys(NAMES, 1)) as cluster:
        ours = cluster.add("ours", offset=0, compatibility=compatibility, reads_on=True)
        wait_for(lambda: is_shared(java, ours, compatibility), timeout_s=TIMEOUT_S)
        told = ours.assignments[-1]
        assert told.leader != ours.member.member_id
        assert told.leader_url == f"http://127.0.0.1:{java.port}/"

        ours.configured = ours.configured._replace(offset=told.config_offset)
        java.stop()
        wait_for(lambda: ours.has == 2 * len(NAMES), timeout_s=TIMEOUT_S)
        assert ours.assignments[-1].leader == ours.member.member_id

        java.start()
        wait_for(lambda: is_shared(java, ours, compatibility), timeout_s=TIMEOUT_S)
        assert ours.assignments[-1].leader == ours.member.member_id
        assert {ours.member.owner_url(name) for name in running(java) & set(NAMES)} <= {told.leader_url}
        assert ours.error is None


def running(java: ConnectWorker) -> set[str]:
    """The connectors (``c0``) and tasks (``c0-0``) that run on the Java worker."""
    found = set()
    for name in NAMES:
        status = java.rest.call("GET", f"/connectors/{name}/status")
        if status.status != 200:
            continue
        parts = [(name, status.body["connector"])]
        parts += [(f"{name}-{task['id']}", task) for task in status.body["tasks"]]
        found |= {part for part, said in parts if said["state"] == "RUNNING"}
    return found


def is_shared(java: ConnectWorker, ours: Herd, compatibility: Compatibility) -> bool:
    """Whether both have work, and all of it has one of them."""
    here, there = {*ours.connectors, *map(str, ours.tasks)}, running(java)
    everything = {*NAMES, *(f"{name}-0" for name in NAMES)}
    if compatibility is Compatibility.EAGER:
        # Tasks that a Java worker gave up in an eager rebalance stay RUNNING in its REST API; connectors do not.
        everything = set(NAMES)
        here, there = here & everything, there & everything
    return bool(here and there) and not here & there and here | there == everything
