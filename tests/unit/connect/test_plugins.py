"""By what names plug-ins are found."""

import pytest

from pkafka.connect.connector import SourceConnector
from pkafka.connect.connectors.file_stream import FileStreamSinkConnector, FileStreamSourceConnector
from pkafka.connect.converters import JsonConverter
from pkafka.connect.errors import ConnectError
from pkafka.connect.plugins import Plugins, PluginType, load_plugins, plugin_of


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
