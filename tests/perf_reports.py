"""What tests ask of the reports of pk-perf-test."""

from collections.abc import Mapping
from typing import Any


def remarks_of(report: Mapping[str, Any]) -> list[str]:
    """What a report remarks, but for who began late: on a busy machine somebody does."""
    return [remark for remark in report["remarks"] if not remark.endswith(" ms late")]
