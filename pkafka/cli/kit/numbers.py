"""Numbers on a command line, as Java reads them: ``+5`` is one, ``1_000`` and ``" 5"``, which Python takes, are not."""

from typing import Any, Final

import click

from pkafka.java.numbers import parse_double, parse_integer

_INT_BITS: Final = 32
_LONG_BITS: Final = 64


class _Whole(click.types.IntParamType):
    def __init__(self, bits: int) -> None:
        self._bits = bits

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:  # noqa: ANN401
        return super().convert(_read_whole(self, value, self._bits, param, ctx), param, ctx)


class _WholeRange(click.IntRange):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:  # noqa: ANN401
        return super().convert(_read_whole(self, value, _LONG_BITS, param, ctx), param, ctx)


class _Decimal(click.types.FloatParamType):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:  # noqa: ANN401
        return super().convert(_read_decimal(self, value, param, ctx), param, ctx)


class _DecimalRange(click.FloatRange):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:  # noqa: ANN401
        return super().convert(_read_decimal(self, value, param, ctx), param, ctx)


def _read_whole(
    kind: click.ParamType[Any],
    value: object,
    bits: int,
    param: click.Parameter | None,
    ctx: click.Context | None,
) -> Any:  # noqa: ANN401 - what it was, where it is no text
    try:
        return parse_integer(value, bits) if isinstance(value, str) else value
    except ValueError:
        kind.fail(f"{value!r} is not a valid integer.", param, ctx)


def _read_decimal(
    kind: click.ParamType[Any], value: object, param: click.Parameter | None, ctx: click.Context | None
) -> Any:  # noqa: ANN401 - what it was, where it is no text
    try:
        return parse_double(value) if isinstance(value, str) else value
    except ValueError:
        kind.fail(f"{value!r} is not a valid float.", param, ctx)


LONG: Final = _Whole(_LONG_BITS)
"""The type of a flag that Kafka's tools read as a long; what is only ``int`` has 32 bits."""
INT_MAX: Final = (1 << (_INT_BITS - 1)) - 1


def as_java(kind: click.ParamType[Any]) -> click.ParamType[Any]:
    """The type of a flag with Java's way to read numbers in place of Python's; any other type as it is."""
    if isinstance(kind, _Whole | _WholeRange | _Decimal | _DecimalRange):
        return kind
    if isinstance(kind, click.IntRange):
        return _WholeRange(kind.min, kind.max, kind.min_open, kind.max_open, kind.clamp)
    if isinstance(kind, click.FloatRange):
        return _DecimalRange(kind.min, kind.max, kind.min_open, kind.max_open, kind.clamp)
    if isinstance(kind, click.types.IntParamType):
        return _Whole(_INT_BITS)
    if isinstance(kind, click.types.FloatParamType):
        return _Decimal()
    return kind
