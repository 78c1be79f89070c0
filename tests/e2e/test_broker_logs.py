"""The logs of a broker in the background: Kafka's files, what goes where, and levels that change while it runs."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.e2e.test_commands import PID_FILE, Shell, own_node, settings, stop
from tests.talk import wait_for


@pytest.fixture
def pk(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.fixture
def node() -> int:
    return own_node()


@pytest.fixture
def address(pk: Shell, node: int) -> Iterator[str]:
    """Of a broker in the background with two workers."""
    ready = pk.folder / "ready"
    options = settings(pk.folder / "data", f"broker.id={node}", "pkafka.workers=2")
    done = pk("server_start", "-daemon", "--wait", "--ready-file", ready, *options)
    assert done.returncode == 0, done
    yield ready.read_text().strip()
    stop(pk, node)


def test_who_leads_what_and_why_has_a_file_of_its_own(pk: Shell, node: int, address: str) -> None:
    logs = pk.folder / "logs"
    own = {"state-change.log", "controller.log", "log-cleaner.log", "kafka-request.log"}
    assert {each.name for each in logs.iterdir()} == own | {"server.log", "kafkaServer.out"}
    done = pk("topics:main", "--bootstrap-server", address, "--create", "--topic", "t", "--partitions", 2)
    assert done.returncode == 0, done

    controller = (logs / "controller.log").read_text()
    assert f"broker {node} is the controller now, epoch 1 (kafka.controller.KafkaController)" in controller
    assert "new partitions: 2 of t (kafka.controller.KafkaController)" in controller
    changes = (logs / "state-change.log").read_text()
    line = re.compile(r"\[20\d\d-\S+ [\d:,]+\] (INFO) \[\d+\] \[(.*?)\] (.*) \(state\.change\.logger\)")
    said = [match.groups() for each in changes.splitlines() if (match := line.fullmatch(each))]
    assert len(said) == len(changes.splitlines())
    decided = f"Controller id={node} epoch=1"
    for number in range(2):
        born = f"Changed partition t-{number} state from NonExistentPartition to NewPartition"
        assert ("INFO", decided, f"{born} with assigned replicas {node}") in said
        online = f"Changed partition t-{number} from NewPartition to OnlinePartition with state LeaderAndIsr("
        assert any(text.startswith(online) for _, who, text in said if who == decided)
        leads = f"Leader t-{number} with topic id Some("
        assert any(text.startswith(leads) for _, who, text in said if who == f"Broker id={node}")
    assert (
        f"Sending LeaderAndIsr request to broker {node} with 2 become-leader and 0 become-follower" in changes
    )
    assert "Add 2 partitions and deleted 0 partitions from metadata cache" in changes
    assert "TRACE" not in changes
    server = (logs / "server.log").read_text()
    assert "kafka.controller" not in server
    assert "state.change.logger" not in server


def test_levels_of_these_logs_change_while_the_broker_runs(pk: Shell, node: int, address: str) -> None:
    requests = pk.folder / "logs" / "kafka-request.log"
    server = ("--bootstrap-server", address)
    loggers = (*server, "--broker-logger", node)
    shown = pk("configs:main", *loggers, "--describe").stdout
    assert "kafka.request.logger=WARN " in shown
    assert "state.change.logger=INFO " in shown
    for setting in ("kafka.request.logger=DEBUG", "state.change.logger=TRACE"):
        done = pk("configs:main", *loggers, "--alter", "--add-config", setting)
        assert done.returncode == 0, done
    assert pk("topics:main", *server, "--create", "--topic", "t", "--partitions", 2).returncode == 0
    changes = pk.folder / "logs" / "state-change.log"
    wait_for(lambda: "TRACE" in changes.read_text())
    sent = pk("console_producer:main", *server, "--topic", "t", stdin="a\nb\n")
    assert sent.returncode == 0, sent
    read = pk("console_consumer:main", *server, "--topic", "t", "--from-beginning", "--max-messages", 2)
    assert sorted(read.stdout.split()) == ["a", "b"]
    stopped = pk("configs:main", *loggers, "--alter", "--delete-config", "kafka.request.logger")
    assert stopped.returncode == 0, stopped
    told = re.compile(r"\[(\d+)\] log level of kafka\.request\.logger: its parent's")
    log = pk.folder / "logs" / "server.log"
    broker = psutil.Process(int((pk.folder / "data" / PID_FILE).read_text()))
    processes = {str(each.pid) for each in (broker, *broker.children())}
    wait_for(lambda: {*told.findall(log.read_text())} == processes, what="every process takes the level over")

    line = re.compile(r"\[.*?\] DEBUG \[(\d+)\] Completed request:(\{.*\}) \(kafka\.request\.logger\)")
    matches = [line.fullmatch(each) for each in requests.read_text().splitlines()]
    found = [(int(match[1]), json.loads(match[2])) for match in matches if match]
    assert len(found) == len(matches)
    by_name = {one["requestHeader"]["requestApiKeyName"]: one for _pid, one in found}
    assert {"API_VERSIONS", "METADATA", "CREATE_TOPICS", "PRODUCE", "FETCH"} <= by_name.keys()
    [topic] = by_name["CREATE_TOPICS"]["request"]["topics"]
    assert (topic["name"], topic["numPartitions"]) == ("t", 2)
    assert by_name["CREATE_TOPICS"]["remoteTimeMs"] > 0
    [sizes] = by_name["PRODUCE"]["request"]["topicData"]
    assert sizes["partitionData"][0]["recordsSizeInBytes"] > 60
    software = {one["clientInformation"]["softwareName"] for _pid, one in found}
    assert software == {"pkafka"}
    assert all(psutil.Process(pid).name() for pid, _one in found)
    before = requests.stat().st_size
    assert pk("topics:main", *server, "--list").stdout.split() == ["t"]
    assert requests.stat().st_size == before
