"""Packages on the plugin path, and what pk-connect-plugin-path says of them."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pkafka.cli.connect_plugin_path import main
from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.connect.plugin_path import plugins_of_worker

MODULE = """\
from pkafka.connect.connector import SinkConnector

class {name}Connector(SinkConnector):
    VERSION = "7"
    def start(self, configs): ...
    def task_configs(self, tasks_max): return []
"""


@pytest.fixture(autouse=True)
def path_of_python(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", [*sys.path])
    known = set(sys.modules)
    yield
    for name in sys.modules.keys() - known:
        del sys.modules[name]


def install(directory: Path, name: str, *, is_sound: bool = True) -> None:
    """What pip install --target leaves of a package."""
    directory.mkdir(parents=True, exist_ok=True)
    module = f"plugin_{name.lower()}"
    text = MODULE.format(name=name) if is_sound else "raise RuntimeError('broken')"
    (directory / f"{module}.py").write_text(text)
    info = directory / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[pkafka.connectors]\nx = {module}:{name}Connector\n")


def test_directories_on_the_path_and_in_it_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install(tmp_path / "path" / "one", "One")
    install(tmp_path / "path" / "two", "Two", is_sound=False)
    install(tmp_path / "alone", "Alone")
    config = tmp_path / "worker.properties"
    config.write_text(f"plugin.path={tmp_path / 'path'}\n")
    words = ["list", "--worker-config", str(config), "--plugin-location", str(tmp_path / "alone")]
    assert main.run([*words, "--output", "json"]) == ExitStatus.OK
    printed = capsys.readouterr()
    rows = {row["name"]: row for row in json.loads(printed.out)["plugins"]}
    assert set(rows) == {"plugin_one.OneConnector", "plugin_two:TwoConnector", "plugin_alone.AloneConnector"}
    one = rows["plugin_one.OneConnector"]
    assert (one["first_alias"], one["second_alias"], one["version"], one["type"]) == (
        "OneConnector",
        "One",
        "7",
        "sink",
    )
    assert rows["plugin_two:TwoConnector"]["problem"] == "RuntimeError: broken"
    assert "cannot be used: RuntimeError: broken" in printed.err
    assert main.run(words) == ExitStatus.OK
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split("\t")[-2:] == ["hasManifest", "pluginLocation"]
    assert (
        "plugin_one.OneConnector\tOneConnector\tOne\t7\tsink\ttrue\ttrue\t" + str(tmp_path / "path/one")
        in lines
    )
    assert lines[-3:] == ["Total plugins:      \t3", "Loadable plugins:   \t2", "Compatible plugins: \t2"]


def test_a_worker_has_the_plug_ins_of_its_path(tmp_path: Path) -> None:
    install(tmp_path / "inner", "Inner")
    plugins = plugins_of_worker({"plugin.path": f" {tmp_path} ,/no/such"})
    assert plugins.connector("Inner").VERSION == "7"


def test_without_a_flag_what_ships_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["list", "--output", "json"]) == ExitStatus.OK
    rows = json.loads(capsys.readouterr().out)["plugins"]
    assert ("org.apache.kafka.connect.file.FileStreamSinkConnector", "classpath") in {
        (row["name"], row["location"]) for row in rows
    }


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["list", "--plugin-path", "/no/such"], "/no/such is no directory"),
        (
            ["sync-manifests", "--plugin-path", "/x", "--dry-run", "--keep-not-found"],
            "There are no manifests to write",
        ),
    ],
)
def test_what_cannot_be_done_is_one_line(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(words) == ExitStatus.USAGE
    printed = capsys.readouterr()
    assert printed.out == ""
    assert said in printed.err
    assert printed.err.count("\n") == 1
