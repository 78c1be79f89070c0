"""The features of a cluster, as a client hears of them when it connects."""

from collections.abc import Mapping
from typing import Final, NamedTuple


class Features(NamedTuple):
    """The features that a cluster has finalized (KIP-584): a level for each name, of the epoch that counts changes."""

    epoch: int
    levels: Mapping[str, int]


NO_FEATURES: Final = Features(-1, {})
