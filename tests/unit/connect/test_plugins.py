"""By what names plug-ins are found, and when they are imported."""

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from pkafka.connect.connector import SourceConnector
from pkafka.connect.connectors.file_stream import FileStreamSinkConnector, FileStreamSourceConnector
from pkafka.connect.converters import JsonConverter
from pkafka.connect.errors import ConnectError
from pkafka.connect.plugins import (
    ANNOUNCED_BY_PKAFKA,
    GROUPS,
    Plugin,
    Plugins,
    PluginType,
    announced_values,
    load_plugins,
    plugin_of,
    plugins_of,
    shipped_plugins,
)
from tests.connect_stores import worker_settings

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    return load_plugins()


@pytest.mark.parametrize(
    "name",
    [
        "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "FileStreamSourceConnector",
        "FileStreamSource",
        "pkafka.connect.connectors.file_stream.FileStreamSourceConnector",
    ],
)
def test_a_connector_has_several_names(plugins: Plugins, name: str) -> None:
    assert plugins.connector(name) is FileStreamSourceConnector


def test_an_unknown_connector_is_told_with_those_that_there_are(plugins: Plugins) -> None:
    for name in ("Nope", "JsonConverter", "os.path.join", "pkafka.nothing.X", "..", ""):
        with pytest.raises(
            ConnectError, match=r"which name matches .*, available connectors are: .*FileStreamSink"
        ):
            plugins.connector(name)


def test_an_alias_that_two_have_is_none(plugins: Plugins) -> None:
    assert plugins.find("Value") is None
    assert plugins.find("RegexRouter") is not None
    assert plugins.implementation("JsonConverter") is JsonConverter


def test_every_type_is_there(plugins: Plugins) -> None:
    assert {each.type for each in plugins} == set(PluginType)
    assert FileStreamSinkConnector in [each.implementation for each in plugins.of(PluginType.SINK)]


class Announced(SourceConnector):
    """A connector of somebody's package, without a class in Java."""


def test_a_python_class_is_called_by_its_own_name() -> None:
    found = plugin_of(Announced)
    assert found is not None
    assert (found.name, found.type) == (f"{__name__}.Announced", PluginType.SOURCE)
    assert plugin_of(dict) is None


# -- what is known without an import --


def test_what_is_known_of_a_shipped_plug_in_is_what_its_class_says() -> None:
    known: dict[str, list[Plugin]] = {}
    for each in (*shipped_plugins(), *ANNOUNCED_BY_PKAFKA.values()):
        known.setdefault(each.python_name, []).append(each)
    for rows in known.values():
        assert rows == plugins_of(rows[0].implementation)


def test_a_plug_in_that_ships_is_listed_once() -> None:
    found = shipped_plugins()
    assert len(found) == len(set(found))
    assert any(each.name.endswith(".SimpleHeaderConverter") for each in found)


def test_the_entry_points_of_pkafka_are_known() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    announced = {value for group in GROUPS for value in project.get(group, {}).values()}
    assert announced == set(ANNOUNCED_BY_PKAFKA)
    for value, plugin in ANNOUNCED_BY_PKAFKA.items():
        assert plugin.python_name == value.replace(":", ".")


A_WORKER_BEGINS = """
import sys
before = set(sys.modules)
import pkafka.cli.connect_distributed, pkafka.connect.distributed_setup
from pkafka.connect.connector_config import enriched, base_config
from pkafka.connect.distributed.config import distributed_config
from pkafka.connect.plugin_path import plugins_of_worker
from pkafka.connect.plugins import PluginType

large = {
    "importlib.metadata",
    "pkafka.connect.mirror.source_connector",
    "pkafka.connect.connectors.sql_source",
    "pkafka.connect.avro_converter",
    "pkafka.pipeline.connect_connector",
}
plugins = plugins_of_worker({})
print(sorted(large & (set(sys.modules) - before)))
distributed_config(SETTINGS, plugins)
print(sorted(large & (set(sys.modules) - before)))
plugins.connector("FileStreamSource")
configs = {"transforms": "a", "transforms.a.type": "RegexRouter"}
enriched(base_config(is_sink=False), configs, plugins).validate_all(configs)
print(sorted(large & (set(sys.modules) - before)))
assert plugins.find("MirrorSource").implementation.__name__ == "MirrorSourceConnector"
print("pkafka.connect.mirror.source_connector" in sys.modules)
"""


def test_a_worker_imports_no_plug_in_that_it_does_not_use() -> None:
    program = A_WORKER_BEGINS.replace("SETTINGS", repr(worker_settings("a:1", "g")))
    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60, cwd=ROOT
    )
    assert told.stdout.splitlines() == ["[]", "[]", "[]", "True"]


# -- what packages announce --


def package(where: Path, entry_points: str | None) -> Path:
    """A directory with a package."""
    where.mkdir(parents=True)
    if entry_points is not None:
        (where / "entry_points.txt").write_text(entry_points)
    return where.parent


ANNOUNCES = """
[console_scripts]
run = other:main

# plug-ins
[pkafka.transforms]
one = one.module:One
# two = commented:Out
  three=three:Three

[pkafka.transforms.other]
four = four:Four
"""


@pytest.mark.parametrize("name", ["a-1.0.dist-info", "a.egg-info", "EGG-INFO"])
def test_a_directory_with_a_package_that_announces(tmp_path: Path, name: str) -> None:
    where = package(tmp_path / name, ANNOUNCES)
    package(tmp_path / "b.dist-info", "[pkafka.connectors]\nb = b:B\n")
    assert announced_values([str(where)]) == {"one.module:One", "three:Three", "b:B"}


def test_a_directory_with_packages_that_announce_nothing(tmp_path: Path) -> None:
    package(tmp_path / "a.dist-info", None)
    package(tmp_path / "b.dist-info", "[console_scripts]\nb = pkafka.connectors:b\n")
    package(tmp_path / "no_metadata", ANNOUNCES)
    (tmp_path / "c.egg-info").write_text("Name: c\n")  # as distutils made them
    assert announced_values([str(tmp_path)]) == set()


def test_what_does_not_exist_has_no_packages(tmp_path: Path) -> None:
    assert announced_values([str(tmp_path / "none"), str(tmp_path / "none.zip")]) == set()


def test_an_empty_name_is_the_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(package(tmp_path / "a.dist-info", ANNOUNCES))
    assert announced_values([""]) == {"one.module:One", "three:Three"}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """An archive with a package that announces a connector."""
    made = tmp_path / "some.zip"
    with zipfile.ZipFile(made, "w") as files:
        files.writestr("some-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: some\nVersion: 1.0\n")
        files.writestr("some-1.0.dist-info/entry_points.txt", "[pkafka.connectors]\nx = some_plugin:Zipped\n")
        files.writestr(
            "some_plugin.py",
            "from pkafka.connect.connectors.file_stream import FileStreamSinkConnector\n"
            "class Zipped(FileStreamSinkConnector):\n    JAVA_NAME = None\n",
        )
    return made


def test_an_archive_is_for_importlib(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert announced_values([str(archive.parent), str(archive)]) is None
    before = list(map(str, load_plugins()))
    monkeypatch.syspath_prepend(str(archive))
    try:
        found = load_plugins()
    finally:
        sys.modules.pop("some_plugin", None)
    assert "some_plugin.Zipped" in {each.name for each in found.of(PluginType.SINK)}
    assert sorted([*before, "some_plugin.Zipped (sink, version undefined)"]) == sorted(map(str, found))
