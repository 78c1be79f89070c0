"""Pictures: well-formed, with what they are to show, whatever is missing."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from pkafka.tools.load.perf_test.plan import Plan
from pkafka.tools.load.perf_test.plot import svg
from tests.unit.tools.load.perf_test.reports import report

PLAN = Plan("t", duration_s=2, warmup_s=1)
SVG = "{http://www.w3.org/2000/svg}"


def texts(picture: str) -> list[str]:
    root = ElementTree.fromstring(picture)
    return [each.text or "" for each in root.iter(f"{SVG}text")]


def test_three_panels_with_axes_and_a_legend() -> None:
    picture = svg(report())
    found = texts(picture)
    assert (
        "pk-perf-test, 2026-01-02T00:00:00.000+00:00: 1 producers, 1 consumers, as fast as possible" in found
    )
    assert {"records/sec", "latency, ms", "share of records that are as fast"} <= set(found)
    assert {"produced", "consumed", "produce 99%", "end-to-end 99.9%", "99.9%"} <= set(found)
    assert len(list(ElementTree.fromstring(picture).iter(f"{SVG}g"))) == 3


def test_everything_lies_in_the_picture() -> None:
    picture = svg(report(latency_us=3_000_000))
    root = ElementTree.fromstring(picture)
    width = float(root.attrib["width"])
    for path in root.iter(f"{SVG}path"):
        for x, y in re.findall(r"[ML]([-\d.]+) ([-\d.]+)", path.attrib["d"]):
            assert 0 <= float(x) <= width
            assert 0 <= float(y) <= 240


@pytest.mark.parametrize(
    "plan", [replace(PLAN, consumers=0), replace(PLAN, producers=0), replace(PLAN, rate=5)]
)
def test_reports_of_other_tests(plan: Plan) -> None:
    assert "records/sec" in texts(svg(report(plan)))


def test_the_names_of_a_report_are_text() -> None:
    made = report()
    made["started_at"] = "<script>&"
    assert "<script>" not in svg(made)
    assert any("<script>&" in each for each in texts(svg(made)))


def test_a_report_without_anything_is_an_empty_picture() -> None:
    made = report()
    made["series"] = []
    made["histograms"] = {}
    assert len(texts(svg(made))) == 1
