"""The report of a load test as tables of Arrow's."""

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from pkafka.tools.load.perf_test.report import PERCENTS, Document

if TYPE_CHECKING:
    import pyarrow as pa

_TEST: Final = ("started_at", "topic", "status")
_PERCENTILES: Final = tuple(f"p{percent:g}_ms".replace(".", "_") for percent in PERCENTS)
_FIGURES: Final = (
    *("records", "size_bytes", "failed", "warm_up_records", "seconds", "records_per_s", "mib_per_s"),
    *("latency_mean_ms", *_PERCENTILES, "latency_max_ms", "cpu_us_per_record"),
)
_COLUMNS: Final = {
    "results": (*_TEST, "side", "processes", *_FIGURES),
    "generators": (*_TEST, "side", "number", "host", "pid", "late_ms", "clock_error_ms", *_FIGURES),
    "series": (
        *(*_TEST, "at_s", "seconds", "produced", "produced_mib", "failed", "consumed", "consumed_mib"),
        *(
            f"{side}_{percentile}_ms"
            for side in ("produce", "end_to_end")
            for percentile in ("p50", "p99", "p99_9")
        ),
    ),
}
_TEXTS: Final = frozenset({"topic", "status", "side", "host"})
_WHOLE: Final = frozenset(
    {
        "records",
        "size_bytes",
        "failed",
        "warm_up_records",
        "processes",
        "number",
        "pid",
        "produced",
        "consumed",
    }
)


def tables(report: Document) -> "dict[str, pa.Table]":
    """The rows of a report by name of their list, each with the test they belong to; percentiles are columns."""
    import pyarrow as pa

    test = {
        "started_at": datetime.fromisoformat(report["started_at"]),
        "topic": report["configuration"]["topic"],
        "status": report["status"],
    }
    made = {}
    for name in ("results", "generators", "series"):
        rows = [_flat({**test, **row}) for row in report[name]]
        columns = _COLUMNS[name]
        schema = pa.schema([(column, _type(column)) for column in columns])
        made[name] = pa.Table.from_pylist(rows, schema=schema)
    return made


def _type(column: str) -> "pa.DataType":
    import pyarrow as pa

    if column == "started_at":
        return pa.timestamp("us", tz="UTC")
    if column in _TEXTS:
        return pa.string()
    return pa.int64() if column in _WHOLE else pa.float64()


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row without rows in it, and no dots in names, which SQL would take for something else."""
    found = {name.replace(".", "_"): value for name, value in row.items() if name != "percentiles_ms"}
    for percent, value in row.get("percentiles_ms", {}).items():
        found[f"p{percent}_ms".replace(".", "_")] = value
    return found
