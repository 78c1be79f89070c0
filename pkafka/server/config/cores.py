"""The cores that a broker may use."""

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_GROUPS: Final = Path("/sys/fs/cgroup")
_OWN_GROUPS: Final = Path("/proc/self/cgroup")


def usable_cores() -> int:
    """The largest useful number of workers: one for each core that this process may use, or for which it has the time.

    The limit of a container (``docker run --cpus``, a Kubernetes limit, systemd's ``CPUQuota=``) is a share of time.
    The container sees all cores of its host, and with a worker for each most workers would wait for their turn. Where
    the kernel does not spread connections over processes (macOS), a second worker would get none.
    """
    if not hasattr(os, "sched_getaffinity"):
        return 1
    cores = len(os.sched_getaffinity(0))
    try:
        limits = list(time_limits(_OWN_GROUPS.read_text(), _GROUPS))
    except OSError:
        limits = []
    return max(1, min([cores, *map(math.ceil, limits)]))


def cores_for_each(brokers: int) -> int:
    """The useful number of workers for each of several brokers that share this machine.

    By itself each broker would take a worker for each core, and workers without a core mostly forward requests.
    """
    return max(usable_cores() // brokers, 1)


def time_limits(membership: str, groups: Path) -> Iterator[float]:
    """The CPU limits of the control groups of a process, in cores; none without limits.

    Args:
        membership: the content of ``/proc/self/cgroup``.
        groups: where the groups are mounted.
    """
    for line in membership.splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        folder = groups / "cpu" if controllers else groups
        # A container may be told the path that its group has on the host; its own group is the root of what it sees.
        for part in (path, *map(str, Path(path).parents)):
            group = folder / part.lstrip("/")
            try:
                yield _first_version(group) if controllers else _second_version(group)
            except (OSError, ValueError):
                continue  # no such group here, or no limit


def _first_version(group: Path) -> float:
    quota_us = int((group / "cpu.cfs_quota_us").read_text())
    if quota_us < 0:
        raise ValueError("no limit")
    return quota_us / int((group / "cpu.cfs_period_us").read_text())


def _second_version(group: Path) -> float:
    quota_us, period_us = (group / "cpu.max").read_text().split()
    return int(quota_us) / int(period_us)  # "max" is no number
