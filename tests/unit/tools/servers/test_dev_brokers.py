"""The book-keeping of throw-away brokers, without a broker: names, what crashes leave, one command at a time."""

import itertools
import signal
import threading
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest

from pkafka.tools.servers import dev_brokers
from pkafka.tools.servers.dev_brokers import DevBrokerError, DevBrokers
from pkafka.tools.servers.local_broker import BrokerStartError


class Machine:
    """Stands for the operating system and for the class that starts brokers."""

    def __init__(self) -> None:
        self.pids = itertools.count(100)
        self.running: dict[int, str] = {}
        self.signals: list[int] = []
        self.deaf = False
        self.refuses: str | None = None
        self.secured: tuple[str, Path | None] = ("", None)
        self.before_start = threading.Event()
        self.before_start.set()

    def is_running(self, pid: int, argument: str) -> bool:
        return self.running.get(pid, "").startswith(argument)

    def kill(self, pid: int, number: int) -> None:
        self.signals.append(number)
        if not self.deaf or number == signal.SIGKILL:
            del self.running[pid]

    def broker(
        self,
        directory: Path,
        overrides: Mapping[str, object],
        *,
        own_session: bool,
        protocol: str,
        properties: Path | None,
    ) -> "Broker":
        assert own_session, "Ctrl-C in the shell must not end it"
        self.secured = (protocol, properties)
        return Broker(self, directory)


class Broker:
    """What DevBrokers wants of a broker."""

    def __init__(self, machine: Machine, directory: Path) -> None:
        self._machine = machine
        self._directory = directory
        self.log_dir = directory / "data"
        self.pid = next(machine.pids)
        self.bootstrap = f"127.0.0.1:{self.pid}"

    def start(self) -> None:
        assert self._machine.before_start.wait(60)
        if self._machine.refuses:
            raise BrokerStartError(self._machine.refuses)
        self._machine.running[self.pid] = str(self._directory)

    def kill(self) -> None:
        self._machine.running.pop(self.pid, None)

    def leave_running(self) -> int:
        return self.pid


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    made = Machine()
    monkeypatch.setattr(dev_brokers, "Broker", made.broker)
    monkeypatch.setattr(dev_brokers, "is_running", made.is_running)
    monkeypatch.setattr(dev_brokers, "STOP_TIMEOUT_S", 0.05)
    monkeypatch.setattr("os.kill", made.kill)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return made


@pytest.fixture
def brokers(tmp_path: Path) -> DevBrokers:
    return DevBrokers(tmp_path / "state")


def test_brokers_are_found_again_by_name(machine: Machine, brokers: DevBrokers) -> None:
    one, two = brokers.start("one", {}), brokers.start("two", {})
    assert brokers.all() == [one, two]
    assert brokers.find("two") == two
    assert one.directory != two.directory
    assert brokers.stop("one") == one
    assert not one.directory.exists()
    assert brokers.all() == [two]
    assert brokers.stop("one") is None
    assert machine.signals == [signal.SIGTERM]


def test_a_name_is_taken_until_its_broker_ends(machine: Machine, brokers: DevBrokers) -> None:
    first = brokers.start("a", {})
    with pytest.raises(DevBrokerError, match=f"runs already on {first.bootstrap}"):
        brokers.start("a", {})
    machine.running.clear()  # it crashed
    assert [each.is_running for each in brokers.all()] == [False]
    second = brokers.start("a", {})
    assert second.is_running
    assert not first.directory.exists()


def test_a_broker_that_does_not_start_leaves_nothing(
    machine: Machine, brokers: DevBrokers, tmp_path: Path
) -> None:
    machine.refuses = "the broker ended with exit code 2:\nan INFO line\npk-server-start: port 1 is in use\n"
    with pytest.raises(DevBrokerError, match=r"^port 1 is in use$"):
        brokers.start("a", {})
    machine.refuses = "the broker ended with exit code 1:\nTraceback\n  line"
    with pytest.raises(DevBrokerError, match=r"(?s)exit code 1.*Traceback"):
        brokers.start("a", {})
    assert brokers.all() == []
    assert [each.name for each in tmp_path.iterdir()] == ["state"]


def test_a_deaf_broker_is_killed(machine: Machine, brokers: DevBrokers) -> None:
    machine.deaf = True
    started = brokers.start("a", {})
    with pytest.raises(DevBrokerError, match="was killed"):
        brokers.stop("a")
    assert machine.signals == [signal.SIGTERM, signal.SIGKILL]
    assert not started.directory.exists()
    assert brokers.all() == []


def test_commands_on_one_name_wait_for_each_other(machine: Machine, brokers: DevBrokers) -> None:
    machine.before_start.clear()
    refused: list[Exception] = []

    def start() -> None:
        try:
            brokers.start("a", {})
        except DevBrokerError as error:
            refused.append(error)

    threads = [threading.Thread(target=start) for _ in range(3)]
    for thread in threads:
        thread.start()
    machine.before_start.set()
    for thread in threads:
        thread.join(60)
    assert len(refused) == 2
    assert len(machine.running) == 1


@pytest.mark.parametrize("name", ["", "../a", "a/b", ".hidden", "a b", "x" * 65])
def test_names_stay_in_the_folder(name: str, machine: Machine, brokers: DevBrokers) -> None:
    with pytest.raises(DevBrokerError, match="is no name"):
        brokers.start(name, {})


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"pid": "x"}', '{"pid": 1, "bootstrap": "b", "directory": "d", "security": 5}']
)
def test_a_damaged_file_is_no_broker(
    text: str, machine: Machine, brokers: DevBrokers, tmp_path: Path
) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "a.json").write_text(text)
    assert brokers.all() == []
    assert brokers.start("a", {}).is_running


def test_the_state_is_the_users(tmp_path: Path) -> None:
    assert dev_brokers.state_directory({"XDG_STATE_HOME": "/s"}) == Path("/s/pkafka/dev")
    assert dev_brokers.state_directory({}) == Path.home() / ".local/state/pkafka/dev"


def test_a_cluster_ends_as_one_with_its_zookeeper_last(
    machine: Machine, brokers: DevBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    zookeepers: list[Path] = []

    def start_zookeeper(directory: Path, **_: object) -> tuple[SimpleNamespace, int]:
        zookeepers.append(directory)
        machine.running[7] = str(directory.parent)
        return SimpleNamespace(pid=7, returncode=None, kill=lambda: machine.running.pop(7), wait=int), 2181

    monkeypatch.setattr(dev_brokers, "start_throw_away", start_zookeeper)
    cluster = brokers.start("c", {}, brokers=3)
    assert (cluster.brokers, len(cluster.others), cluster.others[-1]) == (3, 3, 7)
    assert len(cluster.bootstrap.split(",")) == 3
    assert cluster.zookeeper == "127.0.0.1:2181"
    assert brokers.find("c") == cluster
    assert cluster.is_running
    second = cluster.others[0]
    place = machine.running.pop(second)
    assert (cluster.dead, cluster.is_running) == (["broker 1"], False)
    machine.running[second] = place
    assert brokers.stop("c") == cluster
    assert machine.signals == [signal.SIGTERM] * 3 + [signal.SIGKILL]
    assert machine.running == {}
    assert not cluster.directory.exists()


def test_a_cluster_that_does_not_start_whole_leaves_nothing(
    machine: Machine, brokers: DevBrokers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[str] = []

    def start_zookeeper(_directory: Path, **_: object) -> tuple[SimpleNamespace, int]:
        return SimpleNamespace(pid=7, kill=lambda: ended.append("zookeeper"), wait=int), 2181

    monkeypatch.setattr(dev_brokers, "start_throw_away", start_zookeeper)
    machine.refuses = "\npk-server-start: port 1 is in use"
    with pytest.raises(DevBrokerError, match=r"^port 1 is in use$"):
        brokers.start("c", {}, brokers=2)
    assert ended == ["zookeeper"]
    assert brokers.all() == []
    assert [each.name for each in tmp_path.iterdir()] == ["state"]


@pytest.mark.parametrize("protocol", ["SSL", "SASL_PLAINTEXT", "SASL_SSL"])
def test_a_secured_broker_has_its_files_until_it_is_gone(
    machine: Machine, brokers: DevBrokers, protocol: str
) -> None:
    started = brokers.start("s", {}, security=protocol)
    assert machine.secured == (protocol, started.directory / "security" / "broker.properties")
    assert brokers.find("s") == started
    assert started.security == protocol
    assert started.client_properties == started.directory / "users" / "admin" / "client.properties"
    assert f"security.protocol={protocol}\n" in started.client_properties.read_text()
    assert brokers.stop("s") == started
    assert not started.directory.exists()


def test_users_that_cannot_be_leave_nothing(machine: Machine, brokers: DevBrokers, tmp_path: Path) -> None:
    with pytest.raises(DevBrokerError, match="cannot be the name of a user"):
        brokers.start("s", {}, security="SASL_SSL", passwords={"a b": "c"})
    assert [each.name for each in tmp_path.iterdir()] == ["state"]
