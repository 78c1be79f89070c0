"""Where the logs of a leader and a follower part, and what the follower keeps: by leader epochs (KIP-101, KIP-595).

The high watermark is no help: a follower may have committed records without knowing that they are committed.
"""

from pkafka.errors import ApiError, ErrorCode
from pkafka.model import LeaderEpoch, Offset
from pkafka.storage.log import Log


def divergence(
    log: Log, offset: Offset, last_fetched_epoch: LeaderEpoch
) -> tuple[LeaderEpoch, Offset] | None:
    """Find, as the leader, where its log and that of a reader part.

    Args:
        log: the leader's.
        offset: where the reader's log ends.
        last_fetched_epoch: of the reader's last record; -1 of readers that do not say.

    Returns:
        The largest epoch of the leader that is not above the reader's, and where it ended; None when the leader has all
        of the reader's records.

    Raises:
        ApiError: OFFSET_OUT_OF_RANGE; the leader does not know that epoch.
    """
    if last_fetched_epoch < 0:
        return None
    epoch, end_offset = log.end_offset_for_epoch(last_fetched_epoch)
    if epoch < 0 or offset < log.log_start_offset:
        raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if epoch < last_fetched_epoch or end_offset < offset:
        return epoch, end_offset
    return None


def truncation_offset(log: Log, epoch: LeaderEpoch, end_offset: Offset) -> Offset:
    """Find, as the follower, how much of its log it keeps.

    A follower that lacks the epoch keeps its log up to the end of its largest epoch below; its next fetch compares the
    rest (KIP-279).

    Args:
        log: the follower's.
        epoch: of the leader's answer (:func:`divergence`); -1 when it knows none.
        end_offset: where it ended there; -1 when it knows none.
    """
    end = log.log_end_offset
    if end_offset < 0:
        return min(log.high_watermark, end)
    if epoch < 0:
        return min(end_offset, end)
    own_epoch, own_end = log.end_offset_for_epoch(epoch)
    return min(end_offset, end) if own_epoch < 0 else min(own_end, end_offset, end)
