"""Distributed workers of Kafka Connect, Java's and pkafka's: by turns and together, on one group and its topics."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.connect_workers import (
    PATIENT,
    ConnectWorker,
    cluster_settings,
    java_command,
    our_distributed_command,
)
from tests.interop.conftest import System
from tests.interop.connect_replay import played, step_differences
from tests.interop.connect_session import SESSION
from tests.talk import Talk, talking, wait_for

TEXT = "org.apache.kafka.connect.storage.StringConverter"


class Cluster:
    """One Connect cluster with workers of both makes."""

    def __init__(self, directory: Path, bootstrap: str, name: str) -> None:
        directory.mkdir(exist_ok=True)
        # A member that is given up stops and starts what it runs, and repeats records.
        settings = {**cluster_settings(name), **PATIENT, "session.timeout.ms": "30000"}
        self.java = ConnectWorker(
            java_command(directory, "Distributed"), directory / "java", bootstrap, settings
        )
        self.ours = ConnectWorker(our_distributed_command(), directory / "ours", bootstrap, settings)

    def owners(self, asked: ConnectWorker, *connectors: str) -> set[str]:
        """By which makes the connectors and their tasks are run."""
        found = asked.rest.call("GET", "/connectors?expand=status").body
        makes = {str(self.java.port): "java", str(self.ours.port): "ours"}
        return {
            makes[each["worker_id"].rpartition(":")[2]]
            for name in connectors
            if name in found
            for each in (found[name]["status"]["connector"], *found[name]["status"]["tasks"])
        }


@pytest.fixture
def cluster(system: System, topic: str, tmp_path: Path) -> Iterator[Cluster]:
    found = Cluster(tmp_path, system.bootstrap, f"{topic}-workers")
    yield found
    found.java.close()
    found.ours.close()


def source(topic: str, path: Path) -> dict[str, str]:
    return {
        "name": topic,
        "connector.class": "FileStreamSource",
        "file": str(path),
        "topic": topic,
        "value.converter": TEXT,
    }


def runs(worker: ConnectWorker, connector: str, tasks: int) -> bool:
    return worker.rest.state(connector) == ("RUNNING", ("RUNNING",) * tasks)


def all_run(worker: ConnectWorker, names: list[str]) -> bool:
    return all(runs(worker, name, 1) for name in names)


def test_a_session_of_calls_has_the_same_answers(system: System, topic: str, tmp_path: Path) -> None:
    found = []
    for make in ("java", "ours"):
        cluster = Cluster(tmp_path / make, system.bootstrap, f"{topic}-{make}")
        worker: ConnectWorker = getattr(cluster, make)
        worker.start()
        try:
            found.append(played(worker, f"{topic}-{make}", system.bootstrap))
        finally:
            worker.close()
    shown = []
    for step, java, ours in zip(SESSION, *found, strict=True):
        if "/restart" in step.path and java[0] == ours[0] == 202:
            continue  # the states in the answer are those of the last restart, as far as the worker has read of it
        shown += [f"{step.method} {step.path}: {each}" for each in step_differences(step, ours, java)]
    assert not shown, "\n".join(shown)


def _reads(worker: ConnectWorker, connector: str, path: str) -> bool:
    """Whether the first task of a connector reads a file."""
    found = worker.rest.call("GET", f"/connectors/{connector}/tasks")
    return found.status == 200 and bool(found.body) and found.body[0]["config"]["file"] == path


def _is_done(worker: ConnectWorker, path: str) -> bool:
    return worker.rest.call("POST", path).status == 204


def _has_records(talk: Talk, topic: str, at_least: int) -> bool:
    return len(talk.read(topic)) >= at_least


@pytest.mark.nightly
@pytest.mark.parametrize("first", ["java", "ours"])
def test_both_share_the_work(
    cluster: Cluster, system: System, topic: str, first: str, tmp_path: Path
) -> None:
    """Whoever leads, the other is given half, and gets the rest when the leader is gone."""
    with talking(system.bootstrap) as talk:
        talk.create(topic)
    lines = tmp_path / "in.txt"
    lines.touch()
    names = [f"{topic}-{number}" for number in range(4)]
    leader, other = (cluster.java, cluster.ours) if first == "java" else (cluster.ours, cluster.java)
    leader.start()
    for name in names:
        leader.create({**source(topic, lines), "name": name})
    wait_for(lambda: all_run(leader, names), timeout_s=40)
    other.start()
    wait_for(lambda: cluster.owners(other, *names) == {"java", "ours"}, timeout_s=60)
    wait_for(lambda: all_run(other, names), timeout_s=30)
    for path in (f"/connectors/{names[0]}", f"/connectors/{names[1]}/tasks-config", "/connectors"):
        ours, java = (each.rest.call("GET", path).body for each in (cluster.ours, cluster.java))
        assert ours == java or sorted(ours) == sorted(java)
    assert other.rest.call("PUT", f"/connectors/{names[0]}/pause").status == 202
    leader.rest.wait_until(names[0], "PAUSED", "PAUSED")
    assert leader.rest.call("PUT", f"/connectors/{names[0]}/resume").status == 202
    wait_for(lambda: all_run(other, names), timeout_s=30)
    # What is asked of one is passed on to the one that it concerns, in both directions.
    for worker in (leader, other):
        for name in names:
            for path in (f"/connectors/{name}/restart", f"/connectors/{name}/tasks/0/restart"):
                wait_for(partial(_is_done, worker, path), timeout_s=30)
        # A connector that runs in the other worker sends its tasks to the leader, signed.
        changed = {**source(topic, tmp_path / f"{worker.port}.txt"), "name": names[0]}
        assert worker.rest.call("PUT", f"/connectors/{names[0]}/config", changed).status == 200
        wait_for(partial(_reads, leader, names[0], changed["file"]), timeout_s=30)
        wait_for(partial(all_run, worker, names), timeout_s=30)
    leader.kill()
    left = "ours" if first == "java" else "java"
    wait_for(lambda: cluster.owners(other, *names) == {left} and all_run(other, names), timeout_s=120)


def test_either_goes_on_where_the_other_has_stopped(
    cluster: Cluster, system: System, topic: str, tmp_path: Path
) -> None:
    with talking(system.bootstrap) as talk:
        talk.create(topic)
        lines = tmp_path / "in.txt"
        lines.write_text("0\n1\n")
        wanted = 2
        for round_, worker in enumerate((cluster.ours, cluster.java, cluster.ours)):
            worker.start()
            if round_ == 0:
                worker.create(source(topic, lines))
            with lines.open("a") as file:
                file.writelines(f"{wanted + number}\n" for number in range(3))
            wanted += 3
            wait_for(partial(_has_records, talk, topic, wanted), timeout_s=60)
            worker.stop()
        assert [each.value for each in talk.read(topic)] == [str(number).encode() for number in range(wanted)]
