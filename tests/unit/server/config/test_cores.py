"""How many workers are of use: cores that a broker may run on, and the time that its container is given."""

from pathlib import Path

import pytest

from pkafka.server.config import cores
from pkafka.server.config.cores import time_limits


def write(group: Path, **values: str) -> None:
    group.mkdir(parents=True, exist_ok=True)
    for name, value in values.items():
        (group / name.replace("__", ".")).write_text(value + "\n")


def test_a_container_of_version_2_has_its_limit_at_the_root(tmp_path: Path) -> None:
    write(tmp_path, cpu__max="150000 100000")
    assert list(time_limits("0::/\n", tmp_path)) == [1.5]


def test_the_limits_of_a_service_and_of_its_slice_both_count(tmp_path: Path) -> None:
    write(tmp_path / "system.slice", cpu__max="300000 100000")
    write(tmp_path / "system.slice" / "broker.service", cpu__max="max 100000")
    assert list(time_limits("0::/system.slice/broker.service\n", tmp_path)) == [3.0]


def test_a_container_of_version_1_is_told_a_path_that_it_does_not_see(tmp_path: Path) -> None:
    write(tmp_path / "cpu", cpu__cfs_quota_us="200000", cpu__cfs_period_us="100000")
    own = "12:memory:/docker/0123\n4:cpu,cpuacct:/docker/0123\n0::/system.slice/containerd.service\n"
    assert list(time_limits(own, tmp_path)) == [2.0]


@pytest.mark.parametrize("quota", ["-1", "", "damaged"])
def test_where_there_is_no_limit_none_is_found(tmp_path: Path, quota: str) -> None:
    write(tmp_path / "cpu", cpu__cfs_quota_us=quota, cpu__cfs_period_us="100000")
    assert list(time_limits("1:cpu:/\n0::/\n", tmp_path)) == []


@pytest.mark.parametrize(
    ("limit", "expected"), [("150000 100000", 2), ("10000 100000", 1), ("max 100000", 8)]
)
def test_time_is_rounded_up_and_never_more_than_the_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, expected: int
) -> None:
    write(tmp_path, cpu__max=limit)
    own = tmp_path / "own"
    own.write_text("0::/\n")
    monkeypatch.setattr(cores, "_GROUPS", tmp_path)
    monkeypatch.setattr(cores, "_OWN_GROUPS", own)
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: set(range(8)), raising=False)
    assert cores.usable_cores() == expected


def test_brokers_of_one_machine_share_its_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cores, "usable_cores", lambda: 8)
    assert [cores.cores_for_each(brokers) for brokers in (1, 3, 8, 9)] == [8, 2, 1, 1]
