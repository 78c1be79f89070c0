"""What the controller says to a leader that wants another ISR (AlterPartition, KIP-497). Pure."""

from collections.abc import Set
from typing import NamedTuple

from pkafka.errors import ErrorCode
from pkafka.model import BrokerId, LeaderEpoch
from pkafka.server.controller.context import Leadership


class WantedIsr(NamedTuple):
    """A leader's proposal for one partition."""

    isr: tuple[BrokerId, ...]
    leader_epoch: LeaderEpoch
    partition_epoch: int
    recovering: bool = False


def is_so_already(wanted: WantedIsr, leader: BrokerId, now: Leadership) -> bool:
    """Whether the partition is as the leader wants it: its request was carried out, and the answer lost."""
    return (leader, wanted.leader_epoch, wanted.isr, wanted.recovering) == (
        now.leader,
        now.leader_epoch,
        now.isr,
        now.recovering,
    )


def refusal(wanted: WantedIsr, now: Leadership, live_brokers: Set[BrokerId], *, version: int) -> ErrorCode:
    """Why it may not be so; NONE when it may.

    Args:
        now: the partition's state; not as wanted already, see :func:`is_so_already`.
        live_brokers: those that are not shutting down.
        version: of the request.
    """
    if wanted.leader_epoch != now.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if wanted.partition_epoch != now.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    if wanted.recovering and (len(wanted.isr) > 1 or not now.recovering):
        return ErrorCode.INVALID_REQUEST
    if not live_brokers >= set(wanted.isr):
        # A member that is not there would be waited for by every producer (KIP-841).
        return ErrorCode.INELIGIBLE_REPLICA if version > 1 else ErrorCode.OPERATION_NOT_ATTEMPTED
    return ErrorCode.NONE
