"""The controller's answer to a leader that proposes another ISR (AlterPartition, KIP-497). Pure."""

from collections.abc import Set
from typing import NamedTuple

from pkafka.errors import ErrorCode
from pkafka.model import BrokerId, LeaderEpoch
from pkafka.server.controller.context import Leadership


class WantedIsr(NamedTuple):
    """Holds a leader's proposal for one partition."""

    isr: tuple[BrokerId, ...]
    leader_epoch: LeaderEpoch
    partition_epoch: int
    recovering: bool = False


def is_so_already(wanted: WantedIsr, leader: BrokerId, now: Leadership) -> bool:
    """Whether the partition is already as the leader proposes: an earlier request was carried out, its answer lost."""
    return (leader, wanted.leader_epoch, wanted.isr, wanted.recovering) == (
        now.leader,
        now.leader_epoch,
        now.isr,
        now.recovering,
    )


def refusal(wanted: WantedIsr, now: Leadership, live_brokers: Set[BrokerId], *, version: int) -> ErrorCode:
    """Check a proposal.

    Args:
        wanted: the proposal.
        now: the partition's state, which differs from the proposal, see :func:`is_so_already`.
        live_brokers: those that are not shutting down.
        version: of the request.

    Returns:
        NONE, or the error with which the proposal is refused.
    """
    if wanted.leader_epoch != now.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if wanted.partition_epoch != now.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    if wanted.recovering and (len(wanted.isr) > 1 or not now.recovering):
        return ErrorCode.INVALID_REQUEST
    if not live_brokers >= set(wanted.isr):
        # Every producer with acks=all would wait for a member that is not there (KIP-841).
        return ErrorCode.INELIGIBLE_REPLICA if version > 1 else ErrorCode.OPERATION_NOT_ATTEMPTED
    return ErrorCode.NONE
