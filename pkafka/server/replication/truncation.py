"""Where a follower cuts its log when it and its leader part: by leader epochs, not by the high watermark (KIP-101)."""

from pkafka.model import LeaderEpoch, Offset
from pkafka.storage.log import Log


def truncation_offset(log: Log, epoch: LeaderEpoch, end_offset: Offset) -> Offset:
    """How much of its log a follower keeps.

    The leader's answer is the largest epoch that it has not above the follower's, and where that ended. Where the
    follower has no such epoch, it keeps its own largest below, and what remains to be compared shows at its next fetch
    (KIP-279).

    Args:
        log: the follower's.
        epoch: of the leader's answer; -1 when it knows none.
        end_offset: where it ended there; -1 when it knows none.
    """
    end = log.log_end_offset
    if end_offset < 0:
        return min(log.high_watermark, end)
    if epoch < 0:
        return min(end_offset, end)
    own_epoch, own_end = log.end_offset_for_epoch(epoch)
    return min(end_offset, end) if own_epoch < 0 else min(own_end, end_offset, end)
