"""Settings: what is read, and every refusal in Apache Kafka's words."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from pkafka.connect import config_validators as validators
from pkafka.connect.config_def import ConfigDef, ConfigType, Key, Password
from pkafka.connect.config_types import config_text, parse_type
from pkafka.connect.errors import ConfigError


@pytest.mark.parametrize(
    ("type", "text", "value"),
    [
        (ConfigType.BOOLEAN, " TRUE ", True),
        (ConfigType.BOOLEAN, "false", False),
        (ConfigType.STRING, " a b ", "a b"),
        (ConfigType.INT, " 12 ", 12),
        (ConfigType.SHORT, "-1", -1),
        (ConfigType.LONG, "9223372036854775807", 2**63 - 1),
        (ConfigType.DOUBLE, "1e3", 1000.0),
        (ConfigType.LIST, " a , b,", ["a", "b", ""]),
        (ConfigType.LIST, "", []),
        (ConfigType.CLASS, " x.Y", "x.Y"),
        (ConfigType.PASSWORD, "secret", Password("secret")),
        (ConfigType.STRING, None, None),
    ],
)
def test_text_is_read_by_type(type: ConfigType, text: str | None, value: object) -> None:
    assert parse_type("key", text, type) == value


@pytest.mark.parametrize(
    ("type", "value", "message"),
    [
        (
            ConfigType.BOOLEAN,
            "yes",
            "Invalid value yes for configuration key: Expected value to be either true or false",
        ),
        (ConfigType.INT, "1.5", "Invalid value 1.5 for configuration key: Not a number of type INT"),
        (
            ConfigType.INT,
            "2147483648",
            "Invalid value 2147483648 for configuration key: Not a number of type INT",
        ),
        (
            ConfigType.STRING,
            5,
            "Invalid value 5 for configuration key: Expected value to be a string, but it was a java.lang.Long",
        ),
        (
            ConfigType.SHORT,
            True,
            "Invalid value true for configuration key: "
            "Expected value to be a 16-bit integer (short), but it was a java.lang.Boolean",
        ),
        (ConfigType.LIST, 5, "Invalid value 5 for configuration key: Expected a comma separated list."),
    ],
)
def test_what_is_no_value_of_a_type_is_refused(type: ConfigType, value: object, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_type("key", value, type)
    assert str(refused.value) == message
    assert (refused.value.name, refused.value.value) == ("key", value)


def test_a_password_is_not_shown() -> None:
    value = parse_type("key", "secret", ConfigType.PASSWORD)
    assert "secret" not in f"{value} {value!r}"
    assert config_text(value, ConfigType.PASSWORD) == "[hidden]"


def test_classes_are_looked_up() -> None:
    def lookup(name: str) -> type:
        return {"a.B": dict}[name]

    config = ConfigDef(class_lookup=lookup).define("kind", ConfigType.CLASS)
    assert config.parse({"kind": "a.B"}) == {"kind": dict}
    with pytest.raises(
        ConfigError, match=r"^Invalid value a\.C for configuration kind: Class a\.C could not be found\.$"
    ):
        config.parse({"kind": "a.C"})


def test_defaults_are_read_like_values_and_checked() -> None:
    config = ConfigDef().define("list", ConfigType.LIST, "a,b").define("none", ConfigType.INT, None)
    assert config.parse({}) == {"list": ["a", "b"], "none": None}
    with pytest.raises(ConfigError, match="Value must be at least 1"):
        ConfigDef().define("small", ConfigType.INT, 0, validators.in_range(1))


def test_what_has_to_be_given_is_asked_for() -> None:
    with pytest.raises(ConfigError) as refused:
        ConfigDef().define("must", ConfigType.INT).parse({})
    assert str(refused.value) == 'Missing required configuration "must" which has no default value.'


def test_nothing_is_defined_twice() -> None:
    config = ConfigDef().define("a", ConfigType.INT)
    with pytest.raises(ConfigError, match=r"^Configuration a is defined twice\.$"):
        config.define("a", ConfigType.INT)
    with pytest.raises(ConfigError):
        config.with_keys_of(ConfigDef([Key(name="a", type=ConfigType.INT)]))


def test_validate_tells_all_that_is_wrong_and_may_tell_it_twice() -> None:
    config = (
        ConfigDef()
        .define("a", ConfigType.INT, validator=validators.in_range(1, 9))
        .define("b", ConfigType.STRING, group="g", display_name="B")
    )
    values = {each.name: each for each in config.validate({"a": "x"})}
    assert values["a"].errors == [
        "Invalid value x for configuration a: Not a number of type INT",
        "Invalid value null for configuration a: Value must be non-null",
    ]
    assert values["b"].errors == ['Missing required configuration "b" which has no default value.']
    assert list(config.groups) == ["g"]
    assert [each.value for each in config.validate({"a": "3", "b": "x"})] == [3, "x"]


class _Recommending:
    def valid_values(self, _name: str, parsed: Mapping[str, Any]) -> list[Any]:
        if parsed["parent"] == "bad":
            raise ConfigError("nothing to recommend")
        return [f"{parsed['parent']}-1"]

    def visible(self, _name: str, parsed: Mapping[str, Any]) -> bool:
        return bool(parsed["parent"] != "hidden")


def test_dependents_are_recommended_in_view_of_their_parents() -> None:
    config = (
        ConfigDef()
        .define("parent", ConfigType.STRING, "p", dependents=("child", "gone"))
        .define("child", ConfigType.STRING, "c", recommender=_Recommending())
    )
    values = config.validate_all({"parent": "x"})
    assert (values["child"].recommended, values["child"].visible) == (["x-1"], True)
    assert not config.validate_all({"parent": "hidden"})["child"].visible
    assert config.validate_all({"parent": "bad"})["child"].errors == ["nothing to recommend"]
    assert values["gone"].errors == ["gone is referred in the dependents, but not defined."]
    assert not values["gone"].visible
    with pytest.raises(ConfigError, match=r"are referred in the dependents, but not defined: gone$"):
        config.parse({})


@pytest.mark.parametrize(
    ("validator", "good", "bad", "message"),
    [
        (
            validators.in_range(0, 9),
            9,
            10,
            "Invalid value 10 for configuration k: Value must be no more than 9",
        ),
        (
            validators.one_of("a", "b"),
            "a",
            "c",
            "Invalid value c for configuration k: String must be one of: a, b",
        ),
        (
            validators.one_of_any_case("A", "B"),
            "a",
            None,
            "Invalid value null for configuration k: String must be one of (case insensitive): A, B",
        ),
        (
            validators.list_of("a"),
            ["a"],
            ["x"],
            "Invalid value x for configuration k: String must be one of: a",
        ),
        (
            validators.at_most(1),
            ["a"],
            ["a", "b"],
            "Invalid value [a, b] for configuration k: exceeds maximum list size of [1].",
        ),
        (validators.not_null, "", None, "Invalid value null for configuration k: entry must be non null"),
        (validators.non_empty, None, "", "Invalid value  for configuration k: String must be non-empty"),
        (validators.non_empty_list, ["a"], [], "Invalid value [] for configuration k: Empty list"),
        (
            validators.non_empty_without_controls,
            "a",
            " ",
            "Invalid value   for configuration k: String may not be empty",
        ),
        (
            validators.all_of(validators.not_null, validators.non_empty),
            "a",
            "",
            "Invalid value  for configuration k: String must be non-empty",
        ),
    ],
)
def test_validators(validator: Callable[[str, Any], None], good: object, bad: object, message: str) -> None:
    validator("k", good)
    with pytest.raises(ConfigError) as refused:
        validator("k", bad)
    assert str(refused.value) == message


def test_regular_expressions_are_those_of_java() -> None:
    validators.regex("k", r"\Qa.b\E[a-z&&[^x]]")
    with pytest.raises(ConfigError, match=r"Invalid value { for configuration k: Invalid regex: "):
        validators.regex("k", "{")
