"""Settings as a dataclass."""

from dataclasses import dataclass

import pytest

from pkafka.connect.config_class import config_def_of, read_settings, setting
from pkafka.connect.config_def import ConfigType, Importance, Password
from pkafka.connect.config_validators import in_range
from pkafka.connect.errors import ConfigError


@dataclass(frozen=True)
class Settings:
    file: str = setting("file", "The file.", importance=Importance.HIGH)
    batch_size: int = setting("batch.size", default="2000", validator=in_range(1))
    topics: list[str] = setting("topics", default=[])
    secret: Password | None = setting("secret", default=None, group="Login")
    limit: int = setting("limit", type=ConfigType.LONG, default=2**40)
    ratio: float = setting("ratio", default=0.5)
    strict: bool = setting("strict", default=False)
    kind: type | None = setting("kind", default=None)


def test_the_definition_has_the_fields_in_their_order() -> None:
    definition = config_def_of(Settings)
    assert list(definition.keys) == [
        "file",
        "batch.size",
        "topics",
        "secret",
        "limit",
        "ratio",
        "strict",
        "kind",
    ]
    assert [str(key.type) for key in definition.keys.values()] == [
        *("STRING", "INT", "LIST", "PASSWORD", "LONG", "DOUBLE", "BOOLEAN", "CLASS")
    ]
    assert definition.keys["file"].importance is Importance.HIGH
    assert definition.keys["file"].documentation == "The file."
    assert list(definition.groups) == ["Login"]


def test_what_is_configured_becomes_one() -> None:
    read = read_settings(
        Settings,
        {"file": "a", "topics": "x,y", "secret": "s", "kind": "k"},
        class_lookup={"k": dict}.__getitem__,
    )
    assert read == Settings("a", 2000, ["x", "y"], Password("s"), 2**40, 0.5, False, dict)


def test_what_is_wrong_is_refused() -> None:
    with pytest.raises(ConfigError, match=r'^Missing required configuration "file"'):
        read_settings(Settings, {})
    with pytest.raises(ConfigError, match="Value must be at least 1"):
        read_settings(Settings, {"file": "a", "batch.size": "0"})


def test_other_annotations_are_no_types_of_settings() -> None:
    @dataclass
    class Odd:
        odd: complex = setting("odd")

    with pytest.raises(TypeError, match="is the type of no setting"):
        config_def_of(Odd)
