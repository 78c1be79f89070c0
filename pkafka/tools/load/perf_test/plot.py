"""A load test as a picture: throughput and latency over time, and latency by percentile. SVG, written here.

Every picture stands for itself: a title, axes with units, a legend, colours that people with colour blindness can tell
apart (Okabe and Ito's), and no script.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple
from xml.sax.saxutils import escape

from pkafka.tools.load.perf_test.histogram import Histogram, decode

_WIDTH: Final = 960
_PANEL_HEIGHT: Final = 240
_HEAD: Final = 40
_LEFT, _RIGHT, _TOP, _BOTTOM = 80, 190, 30, 60
_COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_PERCENTS: Final = (0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 99.999)
_STEPS_PER_TICK: Final = 20


class Line(NamedTuple):
    """Points from left to right; None where there is nothing to show."""

    name: str
    points: Sequence[tuple[float, float | None]]


class Axis(NamedTuple):
    """From a value to a place between 0 and 1, and the values that are written beside it."""

    name: str
    place: Callable[[float], float]
    ticks: Sequence[tuple[float, str]]


def svg(report: Mapping[str, Any]) -> str:
    """The picture of a report."""
    series = report["series"]
    panels = [
        _over_time("records/sec", series, {"produced": "produced", "consumed": "consumed"}, per_second=True),
        _over_time(
            "latency, ms",
            series,
            {
                f"{side}_p{percent}_ms": f"{name} {percent}%"
                for side, name in (("produce", "produce"), ("end_to_end", "end-to-end"))
                for percent in ("50", "99", "99.9")
            },
            per_second=False,
        ),
        _by_percentile(report["histograms"]),
    ]
    shown = [panel for panel in panels if panel is not None]
    height = _HEAD + len(shown) * (_PANEL_HEIGHT + _BOTTOM + _TOP)
    title = f"pk-perf-test, {report['started_at']}: {_subtitle(report)}"
    body = "\n".join(
        f'<g transform="translate(0,{_HEAD + _TOP + number * (_PANEL_HEIGHT + _BOTTOM + _TOP)})">\n{panel}\n</g>'
        for number, panel in enumerate(shown)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" font-size="12">\n'
        f"<title>{escape(title)}</title>\n"
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>\n'
        f'<text x="{_LEFT}" y="24" font-size="15">{escape(title)}</text>\n{body}\n</svg>\n'
    )


def _subtitle(report: Mapping[str, Any]) -> str:
    plan = report["configuration"]
    rate = "as fast as possible" if plan["rate"] is None else f"{plan['rate']:.12g} records/sec"
    return f"{plan['producers']} producers, {plan['consumers']} consumers, {rate}"


def _over_time(
    name: str, series: Sequence[Mapping[str, Any]], columns: Mapping[str, str], *, per_second: bool
) -> str | None:
    # Of a second of which the test saw but the beginning, nothing can be told by the second.
    whole = [row for row in series if row["seconds"] * 2 >= series[0]["seconds"]]
    found = [
        Line(text, [(row["at_s"], _value(row, column, per_second=per_second)) for row in whole])
        for column, text in columns.items()
        if any(row[column] for row in whole)
    ]
    if not found:
        return None
    moments = [row["at_s"] for row in whole]
    across = _linear("seconds since the end of the warm-up", min(moments), max(moments))
    highest = max(value for line in found for _, value in line.points if value is not None)
    return "\n".join(_panel(found, across, _linear(name, 0.0, highest)))


def _value(row: Mapping[str, Any], column: str, *, per_second: bool) -> float | None:
    value: float | None = row[column]
    return value / row["seconds"] if per_second and value is not None else value


def _by_percentile(histograms: Mapping[str, str]) -> str | None:
    every = {name: decode(text) for name, text in histograms.items()}
    found = [
        Line(name.replace("_", "-"), list(_curve(histogram)))
        for name, histogram in every.items()
        if histogram.total
    ]
    if not found:
        return None
    values = [value for line in found for _, value in line.points if value]
    end = math.log10(max(each.total for each in every.values()))
    ticks = [(_nines(each), f"{each:g}%") for each in _PERCENTS if _nines(each) <= max(end, 1.0)]
    across = Axis("share of records that are as fast", lambda nines: nines / max(end, 1.0), ticks)
    return "\n".join(_panel(found, across, _logarithmic("latency, ms", min(values), max(values))))


def _curve(histogram: Histogram) -> Iterator[tuple[float, float]]:
    """Percentiles, by the number of nines: what HdrHistogram's plots have for an axis."""
    end = math.log10(histogram.total)
    places = [step / _STEPS_PER_TICK for step in range(int(end * _STEPS_PER_TICK) + 1)]
    times = histogram.percentiles_us(100 * (1 - 10**-place) for place in places)
    return zip(places, (max(us, 1) / 1000 for us in times), strict=True)


def _nines(percent: float) -> float:
    return -math.log10(1 - percent / 100)


def _linear(name: str, low: float, high: float) -> Axis:
    if high <= low:
        high = low + 1
    step = 10 ** math.floor(math.log10((high - low) / 2))
    step = next(step * each for each in (1, 2, 5, 10) if (high - low) / (step * each) <= 6)
    first = math.ceil(low / step)
    values = [each * step for each in range(first, math.floor(high / step) + 1)]
    return Axis(name, lambda value: (value - low) / (high - low), [(each, f"{each:,.6g}") for each in values])


def _logarithmic(name: str, low: float, high: float) -> Axis:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    last = max(last, first + 1)
    ticks = [(10.0**each, f"{10.0**each:g}") for each in range(first, last + 1)]
    return Axis(name, lambda value: (math.log10(value) - first) / (last - first), ticks)


def _panel(lines: Sequence[Line], across: Axis, up: Axis) -> Iterator[str]:
    width = _WIDTH - _LEFT - _RIGHT

    def x(value: float) -> float:
        return round(_LEFT + width * across.place(value), 1)

    def y(value: float) -> float:
        return round(_PANEL_HEIGHT * (1 - up.place(value)), 1)

    for value, text in across.ticks:
        yield f'<path d="M{x(value)} 0V{_PANEL_HEIGHT}" stroke="#ddd"/>'
        yield f'<text x="{x(value)}" y="{_PANEL_HEIGHT + 18}" text-anchor="middle">{escape(text)}</text>'
    for value, text in up.ticks:
        yield f'<path d="M{_LEFT} {y(value)}H{_LEFT + width}" stroke="#ddd"/>'
        yield f'<text x="{_LEFT - 8}" y="{y(value) + 4}" text-anchor="end">{escape(text)}</text>'
    yield f'<rect x="{_LEFT}" width="{width}" height="{_PANEL_HEIGHT}" fill="none" stroke="#666"/>'
    yield (
        f'<text x="{_LEFT + width / 2}" y="{_PANEL_HEIGHT + 38}" text-anchor="middle">{escape(across.name)}</text>'
    )
    yield f'<text x="{_LEFT}" y="-10">{escape(up.name)}</text>'
    for number, line in enumerate(lines):
        colour = _COLOURS[number % len(_COLOURS)]
        yield f'<path d="{_path(line, x, y)}" fill="none" stroke="{colour}" stroke-width="1.8"/>'
        at = 14 + number * 20
        yield f'<path d="M{_LEFT + width + 14} {at}h22" stroke="{colour}" stroke-width="3"/>'
        yield f'<text x="{_LEFT + width + 42}" y="{at + 4}">{escape(line.name)}</text>'


def _path(line: Line, x: Callable[[float], float], y: Callable[[float], float]) -> str:
    pieces: list[str] = []
    is_drawing = False
    for value, height in line.points:
        if height is not None:
            pieces.append(f"{'L' if is_drawing else 'M'}{x(value)} {y(height)}")
            # A point alone is a dot as long as the line is wide.
            pieces += [] if is_drawing else ["h1"]
        is_drawing = height is not None
    return "".join(pieces)
