"""Finding Java and ZooKeeper's jars, and running a server from them."""

import os
from pathlib import Path

import pytest

from pkafka.coordination.zookeeper import ZooKeeperStore
from pkafka.tools.zookeeper.server import (
    MAIN_CLASS,
    ZooKeeperUnavailableError,
    find_jars,
    find_java,
    running_server,
    server_command,
)
from tests.zookeeper import ZooKeeper


@pytest.fixture
def jars(tmp_path: Path) -> Path:
    folder = tmp_path / "libs"
    folder.mkdir()
    for name in ("zookeeper-3.9.5.jar", "zookeeper-jute-3.9.5.jar", "reload4j-1.jar", "notes.txt"):
        (folder / name).touch()
    return folder


@pytest.fixture
def java_home(tmp_path: Path) -> Path:
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch(mode=0o755)
    return tmp_path / "jdk"


def test_all_jars_of_a_given_folder_are_taken(jars: Path) -> None:
    assert [jar.name for jar in find_jars(jars)] == [
        "reload4j-1.jar",
        "zookeeper-3.9.5.jar",
        "zookeeper-jute-3.9.5.jar",
    ]


def test_a_folder_without_zookeeper_is_named(tmp_path: Path) -> None:
    with pytest.raises(ZooKeeperUnavailableError, match=f"{tmp_path} holds no zookeeper"):
        find_jars(tmp_path)


def test_without_pyspark_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ZooKeeperUnavailableError, match=r"pip install 'pkafka\[spark\]'.*--jars DIR"):
        find_jars()


def test_a_missing_java_is_told_with_what_installs_it(tmp_path: Path) -> None:
    for environment in ({"PATH": str(tmp_path)}, {"JAVA_HOME": str(tmp_path)}):
        with pytest.raises(ZooKeeperUnavailableError, match="apt install openjdk"):
            find_java(environment)


def test_the_command_takes_kafkas_environment(tmp_path: Path, jars: Path, java_home: Path) -> None:
    properties = tmp_path / "zookeeper.properties"
    properties.touch()
    environment = {
        "JAVA_HOME": str(java_home),
        "KAFKA_HEAP_OPTS": "-Xmx1G -Xms1G",
        "KAFKA_OPTS": "-Da=b",
        "KAFKA_LOG4J_OPTS": "-Dlog4j.configuration=file:x",
    }
    command = server_command(properties, jars=jars, environment=environment)
    assert command[:3] == [str(java_home / "bin" / "java"), "-Xmx1G", "-Xms1G"]
    assert {"-Da=b", "-Dlog4j.configuration=file:x", "-Dzookeeper.admin.enableServer=false"} < set(command)
    assert command[-4:] == ["-cp", os.pathsep.join(map(str, find_jars(jars))), MAIN_CLASS, str(properties)]


def test_a_missing_properties_file_is_refused(tmp_path: Path, jars: Path, java_home: Path) -> None:
    with pytest.raises(ZooKeeperUnavailableError, match=r"absent\.properties is not a readable file"):
        server_command(tmp_path / "absent.properties", jars=jars, environment={"JAVA_HOME": str(java_home)})


def test_a_server_that_cannot_start_is_reported(
    tmp_path: Path, jars: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_java()  # a machine without Java fails here with the reason
    monkeypatch.setattr("pkafka.tools.zookeeper.server.START_ATTEMPTS", 1)
    with (
        pytest.raises(ZooKeeperUnavailableError, match="ended with exit code 1"),
        running_server(tmp_path, jars=jars),
    ):
        pass
    assert MAIN_CLASS.rpartition(".")[2] in (tmp_path / "zookeeper.log").read_text()


def test_the_servers_fixture_serves_until_its_end(zookeeper: ZooKeeper) -> None:
    with ZooKeeperStore(zookeeper.connect, 10_000) as store:
        assert "zookeeper" in store.children("/")
    os.kill(zookeeper.pid, 0)
