"""pk-zookeeper-shell beside ZooKeeper's own shell, as Kafka starts it: the same lines typed, the same text printed."""

import json
import os
import re
import subprocess
import sys
import uuid
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from tests.differences import first_difference
from tests.interop import kafka as oracle
from tests.json_schemas import check
from tests.sockets import free_port
from tests.talk import wait_for
from tests.zookeeper import ZooKeeper

SHELL: Final = "org.apache.zookeeper.ZooKeeperMainWithTlsSupportForKafka"
NODES: Final = """
create ROOT
create ROOT again
create ROOT/a hello
create -s ROOT/seq- x
create -e ROOT/eph y
create -e -s ROOT/eph z
create -c ROOT/cont
create -t 100000 ROOT/ttl v
create -e -c ROOT/bad
create ROOT/acl data world:anyone:cdrwa
create ROOT/acl3 data digest:user:hash:crwa,world:anyone:r
create nope
create ROOT/eph/x d
create ROOT/b "hello  world"
create ROOT/c 'it is'
ls ROOT
ls -s ROOT
ls -R ROOT
ls
ls /nope
ls ROOT/
get ROOT/a
get -s ROOT/a
get ROOT
get ROOT/b
get ROOT/c
set ROOT/a hi
set -s ROOT/a hi2
set -v 0 ROOT/a hi3
set ROOT/a
stat ROOT
stat /nope
getAcl ROOT
getAcl -s ROOT
getAcl ROOT/acl3
setAcl ROOT/a world:anyone:cdrw
getAcl ROOT/a
setAcl -s ROOT/b world:anyone:cdrwa
setAcl -v 7 ROOT/b world:anyone:cdrwa
setAcl -R ROOT/cont world:anyone:cdrwa
getEphemerals ROOT/eph0
getEphemerals /nope
getAllChildrenNumber ROOT
sync ROOT
setquota -n 50 ROOT
setquota -b 100 ROOT
setquota -B 5000 ROOT
setquota -n 9 ROOT/a
listquota ROOT
delquota -n ROOT
listquota ROOT
delquota ROOT
delquota ROOT
delete ROOT/a
delete ROOT/a
delete ROOT
setquota -n 2 ROOT
setquota -B 3 ROOT
setquota -b 5000 ROOT
setquota -n 9 ROOT/cont
setquota -n -1 ROOT
setquota -b -1 ROOT
listquota ROOT
delquota ROOT
setAcl ROOT world:anyone:cra
deleteall ROOT
setAcl ROOT world:anyone:cdrwa
deleteall -b 2 ROOT
ls ROOT
config
config -c
config -s
reconfig -add server.5=localhost:2:3;4
whoami
addauth digest me:pw
whoami
create ROOT data auth:me:pw:cdrwa
getAcl ROOT
delete ROOT
history
redo 6
printwatches
printwatches off
redo 999
close
ls /
"""
WATCHES: Final = """
create ROOT
create ROOT/a hello
addWatch ROOT
set ROOT/a x
create ROOT/b y
delete ROOT/b
addWatch -m PERSISTENT ROOT/a
addWatch -m bogus ROOT/a
set ROOT/a z
removewatches ROOT
removewatches ROOT/a -d
removewatches ROOT/a
get -w ROOT/a
removewatches ROOT/a -d
removewatches ROOT/a -d
ls -w ROOT
create ROOT/c q
stat -w ROOT
set ROOT w
get -w ROOT/a
set ROOT/a z
deleteall ROOT
"""
WATCHES_EVENTS: Final = 11
"""What is told of the watches, with the connection."""


def their_command(class_path: str, *args: str) -> list[str]:
    """ZooKeeper's shell. A JVM of its own, as it ends the process that it runs in."""
    command = [oracle.java_program("java"), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    command += [f"-Dlog4j.configuration=file:{oracle.JAVA_SOURCES / 'log4j.properties'}"]
    return [*command, "-cp", class_path, SHELL, "-server", *args]


def our_command(*args: str) -> list[str]:
    return [sys.executable, "-m", "pkafka.cli.zookeeper_shell", *args]


def typed(command: list[str], text: str, events: int, output: Path) -> str:
    """What a shell prints when a text is typed, and the end not before it has told of so many events.

    A shell that is left does not wait for the thread that tells of them.
    """
    unbuffered = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with (
        output.open("wb") as told,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=told, env=unbuffered, text=True) as shell,
    ):
        try:
            assert shell.stdin is not None
            shell.stdin.write(text)
            shell.stdin.flush()
            wait_for(lambda: output.read_text().count("WatchedEvent ") >= events, what=f"{events} events")
            shell.stdin.close()
            assert shell.wait(60) == 0
        finally:
            shell.kill()
    return output.read_text()


def theirs(class_path: str, *args: str) -> subprocess.CompletedProcess[str]:
    command = their_command(class_path, *args)
    return subprocess.run(command, input="", capture_output=True, text=True, timeout=60, check=False)


def ours(*args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        our_command(*args),
        input="",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **environment},
    )


def masked(text: str, root: str) -> str:
    """Without names, numbers and times of one run."""
    text = re.sub(r"0x[0-9a-f]+", "0x", text.replace(root, "ROOT"))
    return re.sub(r"time = \w{3} \w{3} \d\d \d\d:\d\d:\d\d (\S+) \d{4}", r"time = \1", text)


def without_events(text: str) -> tuple[list[str], Counter[str]]:
    """The answers in order, and the events, which come when they like, also between the two lines of another one.

    An event that the end of a JVM cut short is none.
    """
    text = re.sub(r"\nWATCHER::\n(\n.*)?\Z", "", text)
    text = re.sub(r"\nWATCHER::\n", "", text)
    events = Counter(re.findall(r"\n(WatchedEvent .*)\n", text))
    return re.sub(r"\nWatchedEvent .*\n", "", text).splitlines(), events


@pytest.mark.parametrize(
    ("script", "events"), [(NODES, 1), (WATCHES, WATCHES_EVENTS)], ids=["nodes", "watches"]
)
def test_the_same_lines_give_the_same_text(
    kafka_classpath: str, zookeeper: ZooKeeper, tmp_path: Path, script: str, events: int
) -> None:
    found = []
    for command in (their_command(kafka_classpath, zookeeper.connect), our_command(zookeeper.connect)):
        root = f"/{uuid.uuid4().hex[:10]}"
        text = typed(command, script.lstrip().replace("ROOT", root), events, tmp_path / "told")
        found.append(without_events(masked(text, root)))
    (their_lines, their_events), (our_lines, our_events) = found
    assert not first_difference(our_lines, their_lines)
    # The end of the session is told by theirs when somebody is still there to tell it.
    for each in (their_events, our_events):
        each.pop("WatchedEvent state:Closed type:None path:null", None)
    assert our_events == their_events


@pytest.mark.parametrize(
    ("words", "compatible"),
    [
        (("ls", "/"), 0),
        (("ls", "-R", "/zookeeper"), 0),
        (("ls", "/nope"), 1),
        (("ls",), 1),
        (("set", "-v", "9", "/zookeeper/quota", "x"), 1),
        (("foo",), 127),
        (("listquota", "/zookeeper"), 0),
        (("addauth", "bogus", "x"), 0),
        (("setquota", "-n", "0", "/zookeeper"), 0),
    ],
)
def test_one_command(
    kafka_classpath: str, zookeeper: ZooKeeper, words: tuple[str, ...], compatible: int
) -> None:
    their = theirs(kafka_classpath, zookeeper.connect, *words)
    our = ours(zookeeper.connect, *words, PK_COMPAT="3.9")
    assert (our.returncode, their.returncode) == (compatible, compatible)
    # Theirs may find a mistake before it is connected, or after; ours connects to no avail only for what can be.
    assert not first_difference(without_events(our.stdout)[0], without_events(their.stdout)[0])


def test_nobody_listens(kafka_classpath: str) -> None:
    server = f"127.0.0.1:{free_port()}"
    their = theirs(kafka_classpath, server, "ls", "/")
    our = ours(server, "ls", "/")
    assert (their.returncode, our.returncode) == (1, 3)
    assert our.stdout == their.stdout == f"Connecting to {server}\n"
    assert ours(server, "ls", "/", PK_COMPAT="3.9").returncode == 1


def test_a_chroot(kafka_classpath: str, zookeeper: ZooKeeper) -> None:
    root = f"/{uuid.uuid4().hex[:10]}"
    ours(zookeeper.connect, "create", root)
    server = f"{zookeeper.connect}{root}"
    assert ours(server, "create", "/below", "text").stderr == "Created /below\n"
    shown = [
        run.stdout
        for run in (ours(server, "ls", "-R", "/"), theirs(kafka_classpath, server, "ls", "-R", "/"))
    ]
    assert shown[0] == shown[1]
    assert shown[0].endswith("\n/\n/below\n")
    assert ours(zookeeper.connect, "get", f"{root}/below").stdout.endswith("\ntext\n")


def test_json(zookeeper: ZooKeeper) -> None:
    root = f"/{uuid.uuid4().hex[:10]}"
    ours(zookeeper.connect, "create", root, "{}")
    shown = ours(zookeeper.connect, "--output", "json", "get", root).stdout
    assert json.loads(shown)["nodes"][0]["data"] == "{}"
    assert json.loads(ours(zookeeper.connect, "getAcl", root, "--output", "json").stdout) == {
        "acl": [{"scheme": "world", "id": "anyone", "perms": "cdrwa"}]
    }
    refused = ours(zookeeper.connect, "stat", f"{root}/nope", "--output", "json")
    assert json.loads(refused.stdout)["error"]["message"] == f"Node does not exist: {root}/nope"
    for words in (
        *(
            f"ls {root}",
            f"ls -R {root}",
            f"stat {root}",
            f"getAcl {root}",
            "whoami",
            "getEphemerals",
            "version",
        ),
        *(f"create {root}/a text", f"set {root}/a other", f"get {root}/a", f"getAllChildrenNumber {root}"),
        *(f"setquota -n 5 {root}/a", f"listquota {root}/a", f"delete {root}/a"),
    ):
        found = ours(zookeeper.connect, "--output", "json", *words.split())
        assert found.returncode == 0, found
        check(json.loads(found.stdout), "pk-zookeeper-shell")
