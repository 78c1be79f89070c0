"""Conditions on records."""

import pytest

from pkafka.tools.console.record_filter import FilterError, all_of, condition

KEY, VALUE = b"user-7", '{"name":"Zoë","age":41,"tags":["a",{"b":true}],"none":null}'.encode()
HEADERS = (("trace", b"abc"), ("trace", b"def"), ("empty", None))


@pytest.mark.parametrize(
    ("text", "is_wanted"),
    [
        ("key=user-7", True),
        ("key=user", False),
        ("key~^user-\\d$", True),
        ("value~Zoë", True),
        ("value=", False),
        ("header.trace=def", True),
        ("header.trace~^[ab]+$", False),
        ("header.empty=", False),
        ("header.nothing~.", False),
        ("value.name=Zoë", True),
        ("value.age=41", True),
        ("value.tags.1.b=true", True),
        ("value.tags.0~a", True),
        ("value.tags.7=a", False),
        ("value.tags.x=a", False),
        ("value.none~.", False),
        ("value.name.first=Z", False),
        ('value.tags=["a",{"b":true}]', True),
        ("key=a=b", False),
    ],
)
def test_conditions(text: str, is_wanted: bool) -> None:
    assert condition(text)(KEY, VALUE, HEADERS) is is_wanted


def test_what_is_null_or_no_json_matches_nothing() -> None:
    assert not condition("key~.*")(None, None, ())
    assert not condition("value.a=1")(None, None, ())
    assert not condition("value.a=1")(None, b"\xff{", ())
    assert condition("value~^.{$")(None, b"\xff{", ())


def test_all_conditions_count() -> None:
    both = all_of([condition("key~user"), condition("value.age=41")])
    assert both is not None
    assert both(KEY, VALUE, ())
    assert not both(b"other", VALUE, ())
    assert all_of([]) is None


@pytest.mark.parametrize("text", ["", "key", "offset=1", "header=x", "header.=x", "key.name=x", "value~("])
def test_what_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(FilterError):
        condition(text)
