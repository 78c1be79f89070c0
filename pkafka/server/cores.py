"""The cores that a broker may use."""

import os


def usable_cores() -> int:
    """How many workers are of use at most: one for each core that this process may run on.

    Without a kernel that spreads connections over processes (macOS) a second worker would get none.
    """
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return 1


def cores_for_each(brokers: int) -> int:
    """As many workers as are of use in each of several brokers that share this machine.

    Each would take the machine for its own, and workers without a core forward more than they do.
    """
    return max(usable_cores() // brokers, 1)
