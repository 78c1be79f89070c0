"""Which segments go, as a table."""

import pytest

from pkafka.storage.retention import Expired, RetentionLimits, SegmentFacts, expired_segments

# Three segments of 10 records and 100 bytes, newest records at 100, 200 and 300 ms; the last one is active.
LOG = [SegmentFacts(0, 10, 100, 100), SegmentFacts(10, 20, 100, 200), SegmentFacts(20, 30, 100, 300)]
FOREVER = RetentionLimits(-1, -1, True)
START, SIZE, TIME = "below the log start offset", "beyond retention.bytes", "beyond retention.ms"


@pytest.mark.parametrize(
    ("limits", "start", "watermark", "now", "gone"),
    [
        (FOREVER, 0, 30, 10_000, []),
        (RetentionLimits(100, -1, True), 0, 30, 200, []),
        (RetentionLimits(100, -1, True), 0, 30, 201, [Expired(1, TIME)]),
        (RetentionLimits(100, -1, True), 0, 30, 401, [Expired(3, TIME)]),
        (RetentionLimits(100, -1, True), 0, 19, 401, [Expired(1, TIME)]),
        (RetentionLimits(100, -1, True), 0, 0, 401, []),
        (RetentionLimits(100, -1, False), 0, 30, 401, []),
        (RetentionLimits(0, -1, True), 0, 30, 301, [Expired(3, TIME)]),
        (RetentionLimits(-1, 300, True), 0, 30, 0, []),
        (RetentionLimits(-1, 250, True), 0, 30, 0, []),
        (RetentionLimits(-1, 200, True), 0, 30, 0, [Expired(1, SIZE)]),
        (RetentionLimits(-1, 0, True), 0, 30, 0, [Expired(3, SIZE)]),
        (FOREVER, 9, 30, 0, []),
        (FOREVER, 10, 30, 0, [Expired(1, START)]),
        (FOREVER, 30, 30, 0, [Expired(2, START)]),
        (RetentionLimits(-1, -1, False), 20, 30, 0, [Expired(2, START)]),
        (RetentionLimits(100, 200, True), 0, 30, 301, [Expired(1, SIZE), Expired(1, TIME)]),
        (
            RetentionLimits(100, 100, True),
            10,
            30,
            1000,
            [Expired(1, START), Expired(1, SIZE), Expired(1, TIME)],
        ),
    ],
)
def test_retention(
    limits: RetentionLimits, start: int, watermark: int, now: int, gone: list[Expired]
) -> None:
    found = expired_segments(LOG, limits, log_start_offset=start, high_watermark=watermark, now_ms=now)
    assert found == gone


def test_an_empty_last_segment_stays() -> None:
    log = [*LOG[:2], SegmentFacts(20, 20, 0, 0)]
    limits = RetentionLimits(1, 0, True)
    found = expired_segments(log, limits, log_start_offset=0, high_watermark=20, now_ms=10_000)
    assert sum(decision.segments for decision in found) == 2
