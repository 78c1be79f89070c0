"""Objects that a configuration names."""

from collections import OrderedDict

import pytest

from pkafka.clients import plugins
from pkafka.clients.serialization import SERIALIZERS, StringSerializer
from pkafka.errors import ConfigError


class Seen:
    def __init__(self) -> None:
        self.configs: object = None

    def configure(self, configs: object) -> None:
        self.configs = configs

    def close(self) -> None:
        raise ValueError("no")


@pytest.mark.parametrize(
    "named",
    [
        "StringSerializer",
        "org.apache.kafka.common.serialization.StringSerializer",
        "pkafka.clients.serialization.StringSerializer",
        StringSerializer,
        StringSerializer(),
    ],
)
def test_a_class_is_named_in_any_of_these_ways(named: object) -> None:
    made = plugins.load("k", named, built_in=SERIALIZERS, methods=("serialize",))
    assert isinstance(made, StringSerializer)


@pytest.mark.parametrize(
    ("named", "why"),
    [
        ("Nope", "package.module.Class"),
        ("org.apache.kafka.common.serialization.Nope", "StringSerializer"),
        ("no.such.module.Class", "cannot be found"),
        ("collections.Nope", "cannot be found"),
        ("os.path.join", "not a class"),
        ("collections.OrderedDict", "no method serialize"),
        (OrderedDict(), "no method serialize"),
        ("pathlib.PurePath.nothing", "cannot be found"),
        ("types.CodeType", "cannot be made"),
    ],
)
def test_what_cannot_be_had_is_refused_with_the_key(named: object, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as caught:
        plugins.load("some.key", named, built_in=SERIALIZERS, methods=("serialize",))
    assert caught.value.key == "some.key"


def test_a_list_is_made_and_configured_in_order(caplog: pytest.LogCaptureFixture) -> None:
    ready = Seen()
    configs = {"a": 1}
    assert [
        type(each) for each in plugins.load_all("k", f"{__name__}.Seen, collections.OrderedDict", {})
    ] == [
        Seen,
        OrderedDict,
    ]
    assert plugins.load_all("k", [ready], configs) == [ready]
    assert plugins.load_all("k", Seen, configs)[0].configs is configs
    assert ready.configs is configs
    assert plugins.load_all("k", "", configs) == []
    plugins.close_quietly(ready)
    plugins.close_quietly(object())
    assert len(caplog.records) == 1
