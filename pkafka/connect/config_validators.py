"""What settings may be: the validators of ``ConfigDef``, with its texts."""

from typing import Final

from pkafka.connect.config_def import Validator
from pkafka.connect.data.types import Value
from pkafka.connect.errors import ConfigError
from pkafka.java.hashing import hash_order
from pkafka.java.pattern import PatternError, compile_pattern
from pkafka.java.text import trim

_NO_PATTERN: Final = 'Cannot invoke "String.isEmpty()" because "this.pattern" is null'


def in_range(least: float | None = None, most: float | None = None) -> Validator:
    """``Range``: a number that is there, not below ``least`` and not above ``most``."""

    def check(name: str, value: Value) -> None:
        if value is None:
            raise ConfigError.of(name, None, "Value must be non-null")
        if least is not None and value < least:
            raise ConfigError.of(name, value, f"Value must be at least {least}")
        if most is not None and value > most:
            raise ConfigError.of(name, value, f"Value must be no more than {most}")

    return check


def one_of(*allowed: str) -> Validator:
    """``ValidString``: one of these, to the letter."""

    def check(name: str, value: Value) -> None:
        if value not in allowed:
            raise ConfigError.of(name, value, f"String must be one of: {', '.join(allowed)}")

    return check


def one_of_any_case(*allowed: str) -> Validator:
    """``CaseInsensitiveValidString``: one of these, in any case."""
    upper = hash_order(each.upper() for each in allowed)

    def check(name: str, value: Value) -> None:
        if value is None or value.upper() not in upper:
            raise ConfigError.of(name, value, f"String must be one of (case insensitive): {', '.join(upper)}")

    return check


def list_of(*allowed: str) -> Validator:
    """``ValidList``: a list of these."""
    check_one = one_of(*allowed)

    def check(name: str, value: Value) -> None:
        for each in value:
            check_one(name, each)

    return check


def at_most(count: int) -> Validator:
    """``ListSize``: a list of so many at most."""

    def check(name: str, value: Value) -> None:
        if len(value) > count:
            raise ConfigError.of(name, value, f"exceeds maximum list size of [{count}].")

    return check


def not_null(name: str, value: Value) -> None:
    """``NonNullValidator``: anything.

    Raises:
        ConfigError: it is None.
    """
    if value is None:
        # Kafka passes the text "null" here.
        raise ConfigError.of(name, "null", "entry must be non null")


def non_empty(name: str, value: Value) -> None:
    """``NonEmptyString``: no text, or one that is not empty.

    Raises:
        ConfigError: it is empty.
    """
    if value is not None and not value:
        raise ConfigError.of(name, value, "String must be non-empty")


def non_empty_without_controls(name: str, value: Value) -> None:
    """``NonEmptyStringWithoutControlChars``: no text, or one that is not blank and has no control characters.

    Raises:
        ConfigError: it is blank, or has some.
    """
    if value is None:
        return
    if not trim(value):
        raise ConfigError.of(name, value, "String may not be empty")
    found = [str(ord(each)) for each in value if ord(each) < 0x20 or 0x7F <= ord(each) <= 0x9F]
    if found:
        listed = ", ".join(found)
        raise ConfigError.of(
            name,
            value,
            f"String may not contain control sequences but had the following ASCII chars: {listed}",
        )


def all_of(*validators: Validator) -> Validator:
    """``CompositeValidator``: what all of these take."""

    def check(name: str, value: Value) -> None:
        for each in validators:
            each(name, value)

    return check


def non_empty_list(name: str, value: Value) -> None:
    """``NonEmptyListValidator``: a list with something in it.

    Raises:
        ConfigError: it is empty, or none.
    """
    if not value:
        raise ConfigError.of(name, value, "Empty list")


def regex(name: str, value: Value) -> None:
    """``RegexValidator``: a regular expression of Java's.

    Raises:
        ConfigError: it is none, or one that Python cannot match.
    """
    if value is None:
        raise ConfigError.of(name, None, f"Invalid regex: {_NO_PATTERN}")
    try:
        compile_pattern(value)
    except PatternError as error:
        raise ConfigError.of(name, value, f"Invalid regex: {error}") from error
