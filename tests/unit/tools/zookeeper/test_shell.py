"""The verbs of ZooKeeper's shell: words, flags and texts; and on the file of an embedded store."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pkafka.cli import zookeeper_shell as command
from pkafka.coordination.administration import (
    Acl,
    KeeperCode,
    KeeperError,
    NotServedError,
    Permission,
)
from pkafka.coordination.embedded import STORE_FILE, EmbeddedStore
from pkafka.coordination.embedded_nodes import EmbeddedNodes
from pkafka.tools.zookeeper import quota
from pkafka.tools.zookeeper.shell import Leave, Shell, UnknownVerbError, explain, tls_settings
from pkafka.tools.zookeeper.verbs import VERBS, client_config
from pkafka.tools.zookeeper.words import VerbUsageError, checked_path, parse_acls, read_words, split_line
from tests.certificates import Authority


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ls -s /a", ["ls", "-s", "/a"]),
        ("  get   /a ", ["get", "/a"]),
        ("set /a 'it is' \"so, then\"", ["set", "/a", "it is", "so, then"]),
        ("set /a it's", ["set", "/a", "it's"]),
        ("", []),
    ],
)
def test_a_line_is_split_into_words(line: str, words: list[str]) -> None:
    assert split_line(line) == words


def test_flags_may_stand_anywhere_and_together() -> None:
    words = read_words(VERBS["ls"], ["/a", "-sR"])
    assert (words.flags, words.rest) == ({"s": "", "R": ""}, ["/a"])
    assert read_words(VERBS["set"], ["-v", "-1", "/a", "-5"]).version() == -1
    assert read_words(VERBS["set"], ["-v7", "/a", "b"]).version() == 7


@pytest.mark.parametrize(
    ("verb", "words", "text"),
    [
        ("ls", [], "ls [-s] [-w] [-R] path"),
        ("ls", ["-x", "/"], "Unrecognized option: -x"),
        ("set", ["/a", "-v"], "Missing argument for option: v"),
        ("set", ["/a"], "set [-s] [-v version] path data"),
    ],
)
def test_wrong_use_is_explained(verb: str, words: list[str], text: str) -> None:
    with pytest.raises(VerbUsageError, match=f"^{re.escape(text)}$"):
        read_words(VERBS[verb], words)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("", "Path length must be > 0"),
        ("a", "Path must start with / character"),
        ("/a/", "Path must not end with / character"),
        ("/a//b", "empty node name"),
        ("/a/../b", "relative paths not allowed"),
    ],
)
def test_paths_are_refused_in_zookeepers_words(path: str, text: str) -> None:
    with pytest.raises(VerbUsageError, match=text):
        checked_path(path)


def test_acls() -> None:
    assert parse_acls("world:anyone:cdrwa,digest:me:a:b:r") == [
        Acl(Permission(31), "world", "anyone"),
        Acl(Permission.READ, "digest", "me:a:b"),
    ]
    for wrong in ("bad", "a:b", "world:anyone:x"):
        with pytest.raises(VerbUsageError):
            parse_acls(wrong)


def test_refusals_are_told_in_the_shells_words() -> None:
    assert explain(KeeperError(KeeperCode.NO_NODE, "/a")) == "Node does not exist: /a"
    assert explain(KeeperError(KeeperCode.UNIMPLEMENTED, "/a")) == "KeeperErrorCode = Unimplemented for /a"
    assert explain(KeeperError(-999)) == "KeeperErrorCode = Unknown error -999"


def test_texts_of_quotas() -> None:
    text = "count=5,bytes=-1=;byteHardLimit=-1;countHardLimit=7"
    values = quota.parse(text.encode())
    assert values == {"count": 5, "bytes": -1, "byteHardLimit": -1, "countHardLimit": 7}
    assert quota.text_of(values) == text
    assert quota.text_of({"count": 1, "bytes": 2}) == "count=1,bytes=2"


def test_where_an_ensemble_serves_clients() -> None:
    text = "server.1=a:2888:3888:participant;0.0.0.0:2181\nserver.2=b:2888:3888;2182\nversion=f"
    assert client_config(text) == "f 0.0.0.0:2181,0.0.0.0:2182"


def test_certificates_are_taken_from_stores(tmp_path: Path) -> None:
    assert tls_settings({"zookeeper.ssl.client.enable": "false"}, source="f") is None
    trusted = tmp_path / "ca.pem"
    trusted.write_bytes(Authority().pem)
    wanted = {"zookeeper.ssl.client.enable": "true", "zookeeper.ssl.truststore.location": str(trusted)}
    context = tls_settings(wanted, source="f")
    assert context is not None
    assert context().check_hostname
    with pytest.raises(NotServedError, match=r"f: zookeeper.ssl.keystore.location=/key.jks: cannot be read"):
        tls_settings({**wanted, "zookeeper.ssl.keystore.location": "/key.jks"}, source="f")


# -- on a file ---------------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / STORE_FILE
    with EmbeddedStore(path) as store:
        store.create("/brokers", b"")
        store.create("/brokers/topics", b"\xff")
    return path


@pytest.fixture
def shell(file: Path) -> Iterator[Shell]:
    shell = Shell(lambda _server: EmbeddedNodes(file))
    shell.open()
    yield shell
    shell.close()


def test_a_file_is_read_beside_its_owner_but_not_changed(file: Path, shell: Shell) -> None:
    with EmbeddedStore(file) as owner:
        owner.create("/brokers/ids", b"{}", ephemeral=True)
        assert shell.run_line("ls /brokers").lines == ["[ids, topics]"]
        assert shell.run_line("get /brokers/ids").lines == ["{}"]
        assert shell.run_line("getEphemerals").lines == ["[/brokers/ids]"]
        assert shell.run_line("getAllChildrenNumber /").lines == ["3"]
        assert shell.run_line("getAcl /brokers").lines == ["'world,'anyone", ": cdrwa"]
        for change in ("create /x", "set /brokers y", "delete /brokers/ids", "deleteall /brokers"):
            with pytest.raises(NotServedError, match="belongs to a broker that runs"):
                shell.run_line(change)
    for line in ("get -w /brokers", "whoami", "addauth digest a:b", "config", "create -c /x"):
        with pytest.raises(NotServedError, match="an embedded store has no"):
            shell.run_line(line)


def test_a_file_without_an_owner_can_be_changed(shell: Shell) -> None:
    assert shell.run_line("create /a 'some text'").remarks == ["Created /a"]
    assert shell.run_line("create -s /a/n-").remarks == ["Created /a/n-0000000000"]
    assert "dataVersion = 1" in shell.run_line("set -s /a x").lines
    for line, code in (
        ("set -v 7 /a x", KeeperCode.BAD_VERSION),
        ("delete /a", KeeperCode.NOT_EMPTY),
        ("create /a", KeeperCode.NODE_EXISTS),
        ("create /b/c", KeeperCode.NO_NODE),
        ("stat /b", KeeperCode.NO_NODE),
    ):
        with pytest.raises(KeeperError) as refused:
            shell.run_line(line)
        assert refused.value.code == code
    assert shell.run_line("ls -R /a").lines == ["/a", "/a/n-0000000000"]
    shell.run_line("deleteall /a")
    assert shell.run_line("ls /").lines == ["[brokers]"]


def test_the_shell_remembers_and_repeats(shell: Shell) -> None:
    shell.run_line("ls /")
    assert shell.run_line("redo 0").lines == ["[brokers]"]
    assert shell.run_line("history").lines == ["0 - ls /", "1 - ls /", "2 - history"]
    for line in ("redo 3", "redo 99", "redo x"):
        with pytest.raises(VerbUsageError, match="out of range"):
            shell.run_line(line)
    assert shell.run_line("printwatches").lines == ["printwatches is on"]
    shell.run_line("printwatches off")
    assert not shell.print_watches
    shell.run_line("close")
    assert shell.run_line("ls /").lines == ["Not connected"]
    shell.run_line("connect")
    assert shell.run_line("ls /").lines == ["[brokers]"]
    with pytest.raises(UnknownVerbError):
        shell.run_line("help")
    with pytest.raises(Leave):
        shell.run_line("quit")


def test_the_command_on_a_file(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main.run([str(file.parent), "ls", "/brokers"]) == 0
    assert capsys.readouterr().out == f"Connecting to {file.parent}\n[topics]\n"
    assert command.main.run(["--data-dir", str(file), "get", "/brokers/topics", "--output", "json"]) == 0
    row = json.loads(capsys.readouterr().out)["nodes"][0]
    assert (row["data"], row["data_length"]) == ({"base64": "/w=="}, 1)


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["ls", "/nope"], 1, "Node does not exist: /nope"),
        (["ls"], 2, "ls [-s] [-w] [-R] path"),
        (["help"], 127, "Command not found: Command not found help"),
        (["--output", "json"], 2, "--output needs a command"),
    ],
)
def test_statuses(
    file: Path, capsys: pytest.CaptureFixture[str], words: list[str], status: int, said: str
) -> None:
    assert command.main.run(["--data-dir", str(file), *words]) == status
    assert said in capsys.readouterr().err


def test_a_place_without_a_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main.run([str(tmp_path), "ls", "/"]) == 1
    assert f"{tmp_path / STORE_FILE} does not exist" in capsys.readouterr().err
