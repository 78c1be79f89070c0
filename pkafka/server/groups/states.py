"""The states of a classic group and the ways between them.

Empty has no members, and possibly offsets. PreparingRebalance collects JoinGroup requests, CompletingRebalance waits
for the leader's assignment, in Stable the members have it. A Dead group was deleted or belongs to another coordinator;
it stays Dead.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class GroupState(StrEnum):
    """Names the states as ListGroups and DescribeGroups do."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


PREDECESSORS: Final[Mapping[GroupState, frozenset[GroupState]]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.PREPARING_REBALANCE: frozenset(
        {GroupState.EMPTY, GroupState.COMPLETING_REBALANCE, GroupState.STABLE}
    ),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.STABLE: frozenset({GroupState.COMPLETING_REBALANCE}),
    GroupState.DEAD: frozenset(GroupState),
}
