"""Numbers as Kafka's tools read them: Java's, which have bounds."""

from typing import Any, Final

import click


class _Long(click.types.IntParamType):
    """A whole number of 64 bits; beyond them it is none, for Kafka's parser as for the wire."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:  # noqa: ANN401 - click's signature
        number: int = super().convert(value, param, ctx)
        if not -(2**63) <= number < 2**63:
            self.fail(f"{value!r} is not a valid integer", param, ctx)
        return number


LONG: Final = _Long()
INT_MAX: Final = 2**31 - 1
