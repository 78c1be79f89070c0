"""How kafka-transactions.sh writes: tables with a tab behind every column, and errors with what failed before them."""

from collections.abc import Iterator, Sequence

from pkafka.errors import ApiError

NONE = "None"
"""What Kafka's tool writes for a value that is missing."""


def table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    """A header and rows as lines; each column as wide as its widest cell, and a tab behind it."""
    lines = [headers, *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headers))]
    for line in lines:
        yield "".join(f"{cell.ljust(width)}\t" for cell, width in zip(line, widths, strict=True))


def failed(what: str, error: ApiError) -> ApiError:
    """An error of a broker with what it made fail."""
    return ApiError(error.code, f"{what}: {error.message}")
