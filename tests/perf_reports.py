"""What tests ask of the reports of pk-perf-test."""

from collections.abc import Mapping
from typing import Any


def remarks_of(report: Mapping[str, Any]) -> list[str]:
    """What a report remarks, but for what was late: on a busy machine something is."""
    return [remark for remark in report["remarks"] if " ms late" not in remark]
