"""Two reports of load tests side by side: what became better, what became worse, and whether they measured the same."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from pkafka.errors import PkafkaError
from pkafka.tools.load.perf_test.report import FORMAT

_JUDGED_PERCENTILES: Final = ("50", "99")
_SHOWN_PERCENTILES: Final = ("50", "90", "99", "99.9")
_UNLIKE: Final = frozenset({"topic", "headers"})
"""What may differ without a remark: it does not make records slower or faster by itself."""

_UNLIKE_KEYS: Final = frozenset({"bootstrap.servers", "client.id", "transactional.id"})
"""Likewise, of clients."""


class ReportError(PkafkaError):
    """A file is not a report that this can read."""


class Row(NamedTuple):
    """One figure in both reports."""

    figure: str
    before: float
    after: float
    change_percent: float | None
    """None where there was nothing before."""

    verdict: str
    """"better", "worse" or "same", where the threshold lies between; "shown" where a figure is not judged."""


class Comparison(NamedTuple):
    """What differs between two reports."""

    rows: list[Row]
    remarks: list[str]

    @property
    def is_regression(self) -> bool:
        """Whether any figure that is judged became worse."""
        return any(row.verdict == "worse" for row in self.rows)


def check(report: object, *, where: str) -> Mapping[str, Any]:
    """A report, if it is one, with all that is read of it here and in pictures.

    Raises:
        ReportError: it is not, or of another format, or was changed.
    """
    if not isinstance(report, dict) or report.get("tool") != "pk-perf-test":
        raise ReportError(f"{where}: this is no report of pk-perf-test")
    if report.get("format") != FORMAT:
        raise ReportError(f"{where}: its format is {report.get('format')}, not {FORMAT}")
    for path in _wrong(report, _FORM, ""):
        raise ReportError(f"{where}: {path} is missing, or is not what pk-perf-test writes there")
    return report


def _is_number(value: object) -> bool:
    """Whether it is a number that a figure of a test can be: 0, or neither endless nor all but 0."""
    is_figure = isinstance(value, int | float) and not isinstance(value, bool)
    return is_figure and (value == 0 or _LEAST <= abs(value) <= _MOST)  # type: ignore[arg-type]


def _is_seconds(value: object) -> bool:
    return _is_number(value) and value > 0  # type: ignore[operator]


def _maybe(kind: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: value is None or kind(value)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_mapping(value: object) -> bool:
    return isinstance(value, dict)


def _numbers_by_name(value: object) -> bool:
    return isinstance(value, dict) and all(map(_is_number, value.values()))


def _texts_by_name(value: object) -> bool:
    return isinstance(value, dict) and all(map(_is_text, value.values()))


def _maybe_transactions(value: object) -> bool:
    """Whether it is what a report says of transactions; those of tests without, and older ones, have nothing."""
    if value is None or value is _MISSING:
        return True
    return isinstance(value, dict) and (
        _is_number(value.get("committed_per_s")) and _numbers_by_name(value.get("commit_percentiles_ms"))
    )


_MISSING: Final = object()
_LEAST: Final = 1e-9
_MOST: Final = 1e18
_FORM: Final[Mapping[str, Any]] = {
    "status": _is_text,
    "started_at": _is_text,
    "host": _is_mapping,
    "configuration": {
        "rate": _maybe(_is_number),
        "producers": _is_number,
        "consumers": _is_number,
    },
    "results": [
        {
            "side": _is_text,
            "records_per_s": _is_number,
            "mib_per_s": _is_number,
            "failed": _is_number,
            "percentiles_ms": _numbers_by_name,
            "latency_max_ms": _maybe(_is_number),
            "cpu_us_per_record": _maybe(_is_number),
        }
    ],
    "series": [
        {
            "at_s": _is_number,
            "seconds": _is_seconds,
            "produced": _maybe(_is_number),
            "consumed": _maybe(_is_number),
            **{
                f"{side}_p{percent}_ms": _maybe(_is_number)
                for side in ("produce", "end_to_end")
                for percent in ("50", "99", "99.9")
            },
        }
    ],
    "histograms": _texts_by_name,
    "transactions": _maybe_transactions,
}
"""What a report has: a mapping by its keys, a list by what each of it is, a value by what tells whether it fits."""


def _wrong(value: object, form: object, path: str) -> Iterator[str]:
    """The places of a report that are not of their form."""
    if isinstance(form, dict):
        if not isinstance(value, dict):
            yield path
            return
        for name, inner in form.items():
            yield from _wrong(value.get(name, _MISSING), inner, f"{path}.{name}" if path else name)
    elif isinstance(form, list):
        if not isinstance(value, list):
            yield path
            return
        for number, each in enumerate(value):
            yield from _wrong(each, form[0], f"{path}[{number}]")
    elif not callable(form) or not form(value):
        yield path


def compare(before: Mapping[str, Any], after: Mapping[str, Any], *, threshold: float) -> Comparison:
    """Compare two reports.

    Args:
        threshold: the share by which a figure may become worse; of rates and of times alike.

    Raises:
        ReportError: they have nothing in common.
    """
    sides = [
        (row["side"], row, other)
        for row in before["results"]
        for other in after["results"]
        if row["side"] == other["side"]
    ]
    if not sides:
        raise ReportError(
            "the two reports have no side in common: one is of producers, the other of consumers"
        )
    rows = [row for side, old, new in sides for row in _rows(side, old, new, threshold)]
    if before.get("transactions") and after.get("transactions"):
        rows += _transaction_rows(before["transactions"], after["transactions"], threshold)
    return Comparison(rows, [*_differences(before, after), *_unfinished(before, after)])


def _rows(side: str, old: Mapping[str, Any], new: Mapping[str, Any], threshold: float) -> Iterator[Row]:
    for name, text in (("records_per_s", "records/sec"), ("mib_per_s", "MB/sec")):
        yield _row(f"{side} {text}", old[name], new[name], threshold, more_is_better=True)
    times = "produce" if side == "produce" else "end-to-end"
    for name in _SHOWN_PERCENTILES:
        if name in old["percentiles_ms"] and name in new["percentiles_ms"]:
            limit = threshold if name in _JUDGED_PERCENTILES else None
            yield _row(
                f"{times} latency {name}%, ms",
                old["percentiles_ms"][name],
                new["percentiles_ms"][name],
                limit,
                more_is_better=False,
            )
    for name, text in (
        ("latency_max_ms", f"{times} latency max, ms"),
        ("cpu_us_per_record", f"{side} CPU us/record"),
    ):
        if old[name] is not None and new[name] is not None:
            yield _row(text, old[name], new[name], None, more_is_better=False)
    if side == "produce":
        yield _row("failed records", old["failed"], new["failed"], threshold, more_is_better=False)


def _transaction_rows(old: Mapping[str, Any], new: Mapping[str, Any], threshold: float) -> Iterator[Row]:
    yield _row(
        "transactions/sec", old["committed_per_s"], new["committed_per_s"], threshold, more_is_better=True
    )
    one, other = old["commit_percentiles_ms"], new["commit_percentiles_ms"]
    for name in _SHOWN_PERCENTILES:
        if name in one and name in other:
            limit = threshold if name in _JUDGED_PERCENTILES else None
            yield _row(f"commit {name}%, ms", one[name], other[name], limit, more_is_better=False)


def _row(figure: str, old: float, new: float, threshold: float | None, *, more_is_better: bool) -> Row:
    change = None if old == 0 else (new - old) / old
    if threshold is None:
        verdict = "shown"
    elif change is None:
        verdict = "same" if new == 0 else ("better" if more_is_better else "worse")
    elif abs(change) <= threshold:
        verdict = "same"
    else:
        verdict = "better" if (change > 0) is more_is_better else "worse"
    return Row(figure, old, new, None if change is None else round(change * 100, 2), verdict)


def _differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    old, new = before["configuration"], after["configuration"]
    for name in sorted({*old, *new} - _UNLIKE):
        one, other = old.get(name), new.get(name)
        if isinstance(one, dict) and isinstance(other, dict):
            for key in sorted({*one, *other} - _UNLIKE_KEYS):
                if one.get(key) != other.get(key):
                    yield f"not the same: {name} {key}: {_shown(one.get(key))}, {_shown(other.get(key))}"
        elif one != other:
            yield f"not the same: {name}: {_shown(one)}, {_shown(other)}"
    for name in ("name", "processor", "cores"):
        one, other = before["host"].get(name), after["host"].get(name)
        if one != other:
            yield f"not the same: host {name}: {_shown(one)}, {_shown(other)}"


def _unfinished(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    for text, report in (("first", before), ("second", after)):
        if report["status"] != "complete":
            yield f"the {text} test is {report['status']}, not complete"


def _shown(value: object) -> str:
    return "none" if value is None else str(value)
