"""Commands as processes: pk-dev, starting and stopping servers, first screens, signals and statuses."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from pkafka.server.config.cores import cores_for_each
from pkafka.tools.zookeeper.server import ZooKeeperUnavailableError, find_jars, find_java
from tests.sockets import free_port
from tests.talk import wait_for

Completed = subprocess.CompletedProcess[str]
TIMEOUT_S = 120.0
PID_FILE = "pkafka.pid"
_STATE = "kafka.server:type=KafkaServer,name=BrokerState"


class Shell:
    """Runs pk-* commands in a folder of their own, as a user with a home of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("PK_")},
            "XDG_STATE_HOME": str(folder / "state"),
            "LOG_DIR": str(folder / "logs"),
            "TMPDIR": str(folder / "tmp"),
        }
        (folder / "tmp").mkdir()

    def command(self, name: str, *args: object) -> list[str]:
        """The command line of pk-``name``."""
        module, _, function = name.partition(":")
        if function:
            program = f"import sys; from pkafka.cli.{module} import {function}; sys.exit({function}())"
            return [sys.executable, "-c", program, *[str(arg) for arg in args]]
        return [sys.executable, "-m", f"pkafka.cli.{module}", *[str(arg) for arg in args]]

    def __call__(
        self, name: str, *args: object, stdin: str = "", folder: Path | None = None, **environment: str
    ) -> Completed:
        return subprocess.run(
            self.command(name, *args),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            cwd=folder or self.folder,
            env={**self.environment, **environment},
            check=False,
        )

    def start(self, name: str, *args: object) -> "subprocess.Popen[str]":
        """Begin a command whose output is read line by line."""
        return subprocess.Popen(
            self.command(name, *args),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.folder,
            env=self.environment,
            start_new_session=True,
        )


@pytest.fixture
def pk(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path)
    yield shell
    shell("dev", "down", "--all")


def own_node() -> int:
    """An id of a broker that no other process of the machine takes: pk-server-stop sees every broker of it."""
    return 10_000 + os.getpid()


def settings(log_dir: Path, *more: str) -> list[str]:
    pairs = (
        "listeners=PLAINTEXT://localhost:0",
        f"log.dirs={log_dir}",
        "pkafka.workers=1",
        f"reserved.broker.max.id={own_node()}",
        *more,
    )
    return [word for pair in pairs for word in ("--override", pair)]


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


# -- pk-dev ------------------------------------------------------------------------------------------------


def test_dev_up_gives_a_broker_that_down_finds_and_removes(pk: Shell) -> None:
    up = pk("dev", "up", "--workers", 1, "--override", "num.partitions=3")
    assert (up.returncode, up.stderr) == (0, "")
    name, _, bootstrap = up.stdout.strip().partition("=")
    assert name == "BOOTSTRAP"
    create = ("--create", "--topic", "t", "--output", "json")
    made = pk("topics:main", "--bootstrap-server", bootstrap, *create)
    assert json.loads(made.stdout)["topics"][0]["partition_count"] == 3

    again = pk("dev", "up")
    assert again.returncode == 1
    assert again.stderr == f"pk-dev: a broker named default runs already on {bootstrap}\n"

    document = json.loads(pk("dev", "up", "--name", "other", "--workers", 1, "--output", "json").stdout)
    (other,) = document["brokers"]
    assert other["bootstrap"] != bootstrap
    listed = pk("dev", "status", "--output", "jsonl").stdout.splitlines()
    assert [json.loads(line)["state"] for line in listed] == ["running", "running"]
    assert pk("dev", "status", "--name", "other").returncode == 0

    family = [psutil.Process(other["pid"]), *psutil.Process(other["pid"]).children(recursive=True)]
    assert pk("dev", "down", "--name", "other").stdout == f"Ended other on {other['bootstrap']}.\n"
    assert not Path(other["directory"]).exists()
    # The kernel takes a process apart in steps; that it has no command line any more is one of the first.
    wait_for(lambda: not any(map(_lives, family)), timeout_s=TIMEOUT_S)
    assert pk("dev", "status", "--name", "other").returncode == 1
    assert pk("dev", "down").returncode == 0
    gone = pk("dev", "down")
    assert (gone.returncode, gone.stdout) == (1, "")
    assert not list((pk.folder / "tmp").iterdir())


def test_dev_up_gives_a_cluster_that_copies_what_it_stores(pk: Shell) -> None:
    up = pk("dev", "up", "--brokers", 3)
    assert (up.returncode, up.stderr) == (0, "")
    variables = dict(line.split("=") for line in up.stdout.splitlines())
    bootstrap = variables["BOOTSTRAP"]
    ids = pk("zookeeper_shell:main", variables["ZOOKEEPER"], "ls", "/brokers/ids")
    assert "[0, 1, 2]" in ids.stdout
    made = pk("topics:main", "--bootstrap-server", bootstrap, "--create", "--topic", "t", "--output", "json")
    assert json.loads(made.stdout)["topics"][0]["replication_factor"] == 3
    (cluster,) = json.loads(pk("dev", "status", "--output", "json").stdout)["brokers"]
    assert (cluster["brokers"], cluster["state"], cluster["dead"]) == (3, "running", [])
    assert cluster["zookeeper"] == variables["ZOOKEEPER"]
    folder = cluster["directory"]
    supervisors = [
        each
        for each in psutil.process_iter(["name", "cmdline"])
        if folder in " ".join(each.info["cmdline"] or ())
    ]
    workers = [
        child for one in supervisors for child in one.children() if child.name().startswith("pkafka-worker")
    ]
    assert len(workers) == 3 * cores_for_each(3)
    first = psutil.Process(cluster["pid"])
    first.kill()
    first.wait()
    listed = pk("dev", "status")
    assert "\tdegraded: broker 0 ended\t" in listed.stdout
    assert pk("dev", "down").returncode == 0
    # What the killed one's other processes do in their own time.
    wait_for(
        lambda: (
            not any(
                folder in " ".join(each.info["cmdline"] or ()) for each in psutil.process_iter(["cmdline"])
            )
        )
    )
    assert not Path(folder).exists()


def test_dev_run_gives_the_command_its_broker_and_ends_with_its_status(pk: Shell) -> None:
    topics = " ".join(f"'{word}'" for word in pk.command("topics:main", "--list"))
    done = pk("dev", "run", "--workers", 1, "sh", "-c", f'{topics} && echo "$BOOTSTRAP" && exit 7')
    assert done.returncode == 7
    assert done.stdout.split("\n")[1].startswith("127.0.0.1:")
    assert pk("dev", "run", "--workers", 1, "no-such-command").returncode == 127
    assert pk("dev", "run", "--workers", 1, "/").returncode == 126
    refused = pk("dev", "run", "--override", "listeners=x", "true")
    assert refused.returncode == 1
    assert refused.stderr.startswith("pk-dev: listeners=x: ")
    assert refused.stderr.count("\n") == 1
    assert not list((pk.folder / "tmp").iterdir())


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_dev_run_ends_its_broker_when_it_is_interrupted(
    pk: Shell, number: signal.Signals, status: int
) -> None:
    running = pk.start("dev", "run", "--workers", 1, "sh", "-c", "echo running; exec sleep 60")
    assert running.stdout is not None
    assert running.stdout.readline() == "running\n"
    family = psutil.Process(running.pid).children(recursive=True)
    assert len(family) > 3
    if number == signal.SIGINT:
        os.killpg(running.pid, number)  # as a terminal does: the command gets it too
    else:
        running.send_signal(number)
    running.communicate(timeout=TIMEOUT_S)
    assert running.returncode == status
    _, left = psutil.wait_procs(family, timeout=TIMEOUT_S)
    assert not left
    assert not list((pk.folder / "tmp").iterdir())


def test_dev_run_leaves_no_broker_when_it_is_killed(pk: Shell) -> None:
    running = pk.start("dev", "run", "--workers", 1, "sh", "-c", "echo running; exec sleep 60")
    assert running.stdout is not None
    assert running.stdout.readline() == "running\n"
    brokers = [
        each
        for each in psutil.Process(running.pid).children(recursive=True)
        if "--ready-file" in each.cmdline()
    ]
    assert len(brokers) > 3
    running.kill()
    _, left = psutil.wait_procs(brokers, timeout=TIMEOUT_S)
    os.killpg(running.pid, signal.SIGTERM)  # the command itself is the shell's business
    running.communicate(timeout=TIMEOUT_S)
    assert not left


# -- pk-server-start and -stop -----------------------------------------------------------------------------


def test_the_first_screen_says_what_to_type_next_and_ctrl_c_ends_the_broker(pk: Shell) -> None:
    broker = pk.start("server_start", *settings(pk.folder / "data"))
    assert broker.stdout is not None
    screen: list[str] = []
    while "Stop with Ctrl-C" not in "".join(screen[-1:]):
        line = broker.stdout.readline()
        assert line, screen
        screen.append(line)
    text = "".join(screen)
    address = text.partition(" is ready on ")[2].split()[0]
    for part in (f"data        {pk.folder / 'data'}", f"pk-topics --bootstrap-server {address}", "embedded"):
        assert part in text
    os.killpg(broker.pid, signal.SIGINT)
    broker.communicate(timeout=TIMEOUT_S)
    assert broker.returncode == 0


def test_version_says_whether_the_loops_are_compiled(pk: Shell) -> None:
    assert (
        "record loops: pure Python, hot path: pure Python"
        in pk("server_start", "--version", PKAFKA_PURE="1").stdout
    )
    assert pk("server_start", "--help").returncode == 0


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["none.properties"], "none.properties is not a readable file"),
        (["--override", "x"], "--override needs key=value, not 'x'"),
        (["--override", "num.partitions=many"], "num.partitions=many: "),
        (["--override", "listeners=PLAINTEXT://localhost"], "listeners="),
        (["--wait"], "--wait goes with --daemon"),
        (["--daemon", "--timeout", "5s"], "--timeout goes with --wait"),
        (["--daemon", "--wait", "--timeout", "soon"], "soon"),
        (["--ready-file", "none/ready"], "there is no folder"),
        (["--nonsense"], "No such option"),
    ],
)
def test_a_wrong_start_is_one_line_and_changes_nothing(pk: Shell, args: list[str], text: str) -> None:
    done = pk("server_start", *args)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("pk-server-start: ")
    assert text in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (pk.folder / "data").exists()


def stop(pk: Shell, node: int) -> Completed:
    """pk-server-stop, and its broker's end. Not by asking again: a second signal is no clean stop."""
    broker = int((pk.folder / "data" / PID_FILE).read_text())
    stopped = pk("server_stop", "--node-id", node)
    assert stopped.returncode == 0, stopped
    wait_for(lambda: not psutil.pid_exists(broker), timeout_s=TIMEOUT_S)
    return stopped


def test_a_daemon_says_when_it_is_ready_logs_to_a_file_and_is_stopped(pk: Shell) -> None:
    node = own_node()
    ready = pk.folder / "ready"
    ready.write_text("of an earlier run")
    args = settings(pk.folder / "data", f"broker.id={node}")
    started = pk("server_start", "-daemon", "--wait", "--ready-file", ready, *args)
    try:
        assert started.returncode == 0, started
        address = ready.read_text().strip()
        assert started.stdout == f"pkafka broker {node} is ready on {address}\n"
        assert pk("topics:main", "--list", "--bootstrap-server", address).returncode == 0
        assert "is ready on" in (pk.folder / "logs" / "kafkaServer.out").read_text()

        second = pk("server_start", "-daemon", "--wait", *args)
        assert second.returncode == 1
        assert "another process" in second.stderr
    finally:
        stopped = stop(pk, node)
    assert (stopped.returncode, stopped.stdout) == (0, "")
    assert pk("server_stop", "--node-id", node).stdout == "No kafka server to stop\n"
    assert "Stopping (signal SIGTERM)" in (pk.folder / "logs" / "server.log").read_text()
    assert (pk.folder / "data" / ".kafka_cleanshutdown").exists()


def test_of_brokers_with_one_id_and_one_file_name_each_is_known_by_its_directory(pk: Shell) -> None:
    node, pids = own_node(), []
    homes = [pk.folder / name for name in ("one", "two")]
    try:
        for home in homes:
            home.mkdir()
            ids = f"broker.id={node}\nreserved.broker.max.id={node}\n"
            text = f"{ids}listeners=PLAINTEXT://127.0.0.1:0\nlog.dirs=data\npkafka.workers=1\n"
            (home / "server.properties").write_text(text)
            started = pk("server_start", "--daemon", "--wait", "server.properties", folder=home)
            assert started.returncode == 0, started
            pids.append(int((home / "data" / PID_FILE).read_text()))
        # What the file says by now, and what lies where the command runs, is nothing to a broker that runs.
        (homes[0] / "server.properties").write_text(f"broker.id={node + 100}\n")
        (pk.folder / "server.properties").write_text(f"broker.id={node + 200}\n")
        for other in (node + 100, node + 200):
            assert pk("server_stop", "--node-id", other).stdout == "No kafka server to stop\n"
        several = pk("server_stop", "--node-id", node)
        assert (several.returncode, several.stdout) == (1, "")
        for home, pid in zip(homes, pids, strict=True):
            known = f"pid {pid} (id {node}, server.properties, data in {home}/data, runs in {home})"
            assert known in several.stderr
        assert all(map(psutil.pid_exists, pids))
        assert pk("server_stop", "--node-id", node, "--all").returncode == 0
        wait_for(lambda: not any(map(psutil.pid_exists, pids)), timeout_s=TIMEOUT_S)
    finally:
        for pid in filter(psutil.pid_exists, pids):
            os.kill(pid, signal.SIGKILL)


def test_who_waits_for_a_daemon_may_have_a_limit_and_the_daemon_goes_on(pk: Shell) -> None:
    node = own_node()
    args = settings(pk.folder / "data", f"broker.id={node}")
    ready = pk.folder / "ready"
    started = pk("server_start", "--daemon", "--wait", "--timeout", "1ms", "--ready-file", ready, *args)
    try:
        assert (started.returncode, started.stdout) == (1, ""), started
        assert "it is not ready after 0.001 s, and goes on starting" in started.stderr
        wait_for(ready.exists, timeout_s=TIMEOUT_S)
    finally:
        stop(pk, node)


def test_jmx_port_in_the_environment_opens_the_page_of_metrics_unless_the_key_is_set(pk: Shell) -> None:
    node = own_node()
    asked, other = free_port(), free_port()
    for key, port in ((), asked), ((f"pkafka.metrics.port={other}",), other):
        args = settings(pk.folder / "data", f"broker.id={node}", *key)
        started = pk("server_start", "--daemon", "--wait", *args, JMX_PORT=str(asked))
        try:
            assert started.returncode == 0, started
            found = pk("metrics", "--url", f"http://localhost:{port}", "--one-time", "--object-name", _STATE)
            assert f"{_STATE}:Value" in found.stdout
            node_value = pk(
                "zookeeper_shell", "--data-dir", pk.folder / "data", "get", f"/brokers/ids/{node}"
            )
            assert f'"jmx_port":{port},' in node_value.stdout
        finally:
            stop(pk, node)


@pytest.mark.parametrize("text", ["x", "65536", "-1", "\u0663"])
def test_a_jmx_port_that_is_none_is_one_line(pk: Shell, text: str) -> None:
    done = pk("server_start", JMX_PORT=text)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"pk-server-start: JMX_PORT={text}: must be a port")
    assert done.stderr.count("\n") == 1
    assert not (pk.folder / "data").exists()


def test_a_busy_port_is_one_line_with_the_way_out(pk: Shell) -> None:
    up = pk("dev", "up", "--workers", 1)
    port = up.stdout.strip().rpartition(":")[2]
    done = pk("server_start", "--override", f"listeners=PLAINTEXT://127.0.0.1:{port}")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(
        f"pk-server-start: port {port} is in use: stop what listens"
    )


# -- ZooKeeper ---------------------------------------------------------------------------------------------


def test_zookeeper_starts_as_a_daemon_and_serves_a_broker(pk: Shell) -> None:
    try:
        find_java()
        find_jars()
    except ZooKeeperUnavailableError as missing:
        pytest.skip(str(missing))
    port = free_port()
    properties = pk.folder / "zookeeper.properties"
    properties.write_text(f"dataDir={pk.folder / 'zk'}\nclientPort={port}\nclientPortAddress=127.0.0.1\n")
    assert pk("zookeeper_server_start", "-daemon", properties).returncode == 0
    try:
        connect = f"zookeeper.connect=127.0.0.1:{port}"
        up = pk(
            "dev",
            "up",
            "--workers",
            1,
            "--override",
            connect,
            "--override",
            "zookeeper.connection.timeout.ms=60000",
        )
        assert up.returncode == 0, up
        assert pk("dev", "down").returncode == 0
    finally:
        # Not pk-zookeeper-server-stop, which ends every ZooKeeper of the machine.
        found = [each for each in psutil.process_iter() if str(properties) in " ".join(_cmdline(each))]
        assert len(found) == 1
        found[0].terminate()
        found[0].wait(TIMEOUT_S)
    assert (pk.folder / "logs" / "zookeeper.out").stat().st_size > 0


def _cmdline(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def test_zookeeper_without_a_file_or_jars_is_usage(pk: Shell) -> None:
    missing = pk("zookeeper_server_start", "none.properties")
    assert missing.returncode == 2
    assert missing.stderr == "pk-zookeeper-server-start: none.properties is not a readable file\n"
    (pk.folder / "z.properties").write_text("")
    (pk.folder / "jars").mkdir()
    without = pk("zookeeper_server_start", "--jars", "jars", "z.properties")
    assert without.returncode == 2
    assert "holds no zookeeper-*.jar" in without.stderr
    assert pk("zookeeper_server_start").returncode == 2
