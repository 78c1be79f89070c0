"""Tables as lines of text, for commands that have no text of Kafka's."""

from collections.abc import Iterator, Sequence

from pkafka.cli.kit.output import Table


def columns(table: Table) -> Iterator[str]:
    """Columns apart by blanks: the first one to the left, numbers to the right. Empty ones are left out."""
    if not table.rows:
        return
    names = told(table)
    cells = [[name.upper() for name in names]] + [[_plain(row[name]) for name in names] for row in table.rows]
    widths = [max(len(row[index]) for row in cells) for index in range(len(names))]
    numeric = [all(isinstance(row[name], int | float | None) for row in table.rows) for name in names]
    for row in cells:
        yield "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ).rstrip()


def told(table: Table) -> list[str]:
    """The columns that are not empty."""
    names = table.columns or list(table.rows[0])
    return [name for name in names if any(row[name] is not None for row in table.rows)]


def _plain(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ",".join(map(str, value)) or "-"
    return f"{value:.1f}" if isinstance(value, float) else str(value)
