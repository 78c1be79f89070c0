"""pk-pipeline with files that are no pipeline, and without the cluster they name: a line each, before Spark starts."""

from pathlib import Path

import pytest

from pkafka.cli import pipeline
from pkafka.cli.kit.exit_status import ExitStatus
from tests.fakes.broker import FakeBroker
from tests.sockets import free_port

GOOD = """\
parameters: {topic: orders, servers: }
source:
  format: pkafka
  options: {kafka.bootstrap.servers: "${servers}", subscribe: "${topic}"}
sink: {format: parquet, path: /never}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "orders.yaml"
    file.write_text(GOOD)
    return file


def said(capsys: pytest.CaptureFixture[str], *words: str, status: ExitStatus) -> list[str]:
    assert pipeline.main.run(list(words)) == status
    printed = capsys.readouterr()
    assert printed.out == ""
    return printed.err.splitlines()


@pytest.mark.parametrize("verb", ["run", "validate"])
def test_everything_that_is_wrong_with_a_file(
    verb: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(GOOD.replace("source:", "xsource:").replace("path", "pth"))
    assert said(capsys, verb, str(file), "--set", "server=x", status=ExitStatus.USAGE) == [
        f"pk-pipeline: {file}: there is no parameter server (did you mean servers?)",
        f"{file}: there is no source",
        f"{file}, line 2: there is no key xsource of a pipeline (did you mean source?)",
        f"{file}, line 5: there is no key pth of sink (did you mean path?)",
        f"{file}, line 5: sink needs a path",
    ]


def test_a_file_that_is_not_there_or_no_text(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_bytes(b"\xff\xfe\xff")
    assert said(capsys, "run", str(file), status=ExitStatus.USAGE) == [
        f"pk-pipeline: {file}: it is no text of UTF-8"
    ]
    file.unlink()
    (line,) = said(capsys, "run", str(file), status=ExitStatus.FAILURE)
    assert line == f"pk-pipeline: {file}: No such file or directory"
    (line,) = said(capsys, "run", str(file), "--set", "servers", status=ExitStatus.USAGE)
    assert "--set needs key=value" in line


def test_a_cluster_that_is_not_there(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    servers = f"127.0.0.1:{free_port()}"
    (line,) = said(capsys, "run", str(file), "--set", f"servers={servers}", status=ExitStatus.UNREACHABLE)
    assert servers in line


def test_a_topic_that_is_not_there(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with FakeBroker({"order": 1, "other": 1}) as broker:
        words = ["run", str(file), "--set", f"servers={broker.bootstrap}"]
        (line,) = said(capsys, *words, status=ExitStatus.FAILURE)
    assert line == f"pk-pipeline: {file}, line 3: there is no topic orders (did you mean order?)"


def test_an_address_of_metrics() -> None:
    assert pipeline._address("9100") == ("0.0.0.0", 9100)
    assert pipeline._address("[::1]:9100") == ("::1", 9100)
