"""The headers of a record of Connect: names with values and schemas, in order, names more than once."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Self

from pkafka.connect.data.java_text import java_text
from pkafka.connect.data.schema import Schema, SchemaAndValue
from pkafka.connect.data.types import Value
from pkafka.connect.data.validation import fits_class
from pkafka.connect.errors import DataError, NullError


class Header(NamedTuple):
    """``ConnectHeader``: one header."""

    key: str
    value: Value
    schema: Schema | None

    def __str__(self) -> str:
        value = java_text(self.value, self.schema)
        return f"ConnectHeader(key={self.key}, value={value}, schema={java_text(self.schema)})"


class Headers:
    """``ConnectHeaders``: the headers of one record, in the order in which they were added.

    Args:
        headers: to begin with.
    """

    __slots__ = ("_headers",)

    def __init__(self, headers: Iterable[Header] = ()) -> None:
        self._headers = list(headers)

    def __len__(self) -> int:
        return len(self._headers)

    def __iter__(self) -> Iterator[Header]:
        return iter(self._headers)

    def __eq__(self, other: object) -> bool:
        return self._headers == other._headers if isinstance(other, Headers) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # they change

    def __str__(self) -> str:
        return f"ConnectHeaders(headers={java_text(self._headers) if self._headers else ''})"

    __repr__ = __str__

    def add(self, key: str, value: Value, schema: Schema | None = None) -> Self:
        """One header more.

        Raises:
            DataError: the value does not fit the schema.
        """
        if schema is not None:
            _refuse_misfit(schema, value)
        if key is None:
            raise NullError("Null header keys are not permitted")
        self._headers.append(Header(key, value, schema))
        return self

    def add_header(self, header: Header) -> Self:
        """One header more, that of another record."""
        self._headers.append(header)
        return self

    def last_with_name(self, key: str) -> Header | None:
        """The last header of that name."""
        return next((header for header in reversed(self._headers) if header.key == key), None)

    def all_with_name(self, key: str) -> list[Header]:
        """All headers of that name."""
        return [header for header in self._headers if header.key == key]

    def remove(self, key: str) -> Self:
        """No header of that name any more."""
        self._headers = [header for header in self._headers if header.key != key]
        return self

    def retain_latest(self, key: str | None = None) -> Self:
        """The last header of that name alone, or of every name."""
        kept: list[Header] = []
        seen: set[str] = set()
        for header in reversed(self._headers):
            if header.key not in seen or (key is not None and header.key != key):
                kept.append(header)
            seen.add(header.key)
        self._headers = kept[::-1]
        return self

    def clear(self) -> Self:
        """No headers."""
        self._headers = []
        return self

    def duplicate(self) -> "Headers":
        """Another object with the same headers."""
        return Headers(self._headers)

    def apply(self, transform: Callable[[Header], Header | None], key: str | None = None) -> Self:
        """Change all headers, or those of a name; None removes one.

        Raises:
            DataError: a new value does not fit its schema.
        """
        changed = (
            transform(header) if key is None or header.key == key else header for header in self._headers
        )
        kept = [header for header in changed if header is not None]
        for header in kept:
            if header.schema is not None:
                _refuse_misfit(header.schema, header.value)
        self._headers = kept
        return self

    def value_of(self, key: str) -> SchemaAndValue | None:
        """Schema and value of the last header of that name."""
        found = self.last_with_name(key)
        return None if found is None else SchemaAndValue(found.schema, found.value)


def _refuse_misfit(schema: Schema, value: object) -> None:
    if value is None:
        if not schema.optional:
            raise DataError(f"A null value requires an optional schema but was {schema}")
    elif not fits_class(schema, value):
        raise DataError(f"The value {java_text(value, schema)} is not compatible with the schema {schema}")
