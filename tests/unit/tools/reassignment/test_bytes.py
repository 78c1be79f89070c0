"""How many bytes a move is, what of it is there, how that is said; and the file that leads back."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pkafka.cli.reassign_partitions import progress
from pkafka.cli.reassign_partitions.forecast import Forecast, duration_text, size_text
from pkafka.clients.admin.results import LogDir, PartitionDescription, Reassignment, ReplicaOnDisk
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition, TopicPartitionReplica
from pkafka.tools.reassignment import disk, rollback, run
from pkafka.tools.reassignment.disk import Copies, Traffic
from pkafka.tools.reassignment.plan import LogDirState, ReplicaState, State, Wanted
from pkafka.tools.reassignment.run import Prepared, Verified

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
AWAY = ApiError(ErrorCode.BROKER_NOT_AVAILABLE, "broker 9 is not part of the cluster")


class FakeAdmin:
    """Brokers with directories; one that is not among them is away.

    Args:
        sizes: bytes by broker, directory and partition; a partition with ``future`` is a copy in the making.
    """

    def __init__(
        self, sizes: dict[int, dict[str, dict[Any, int]]], leaders: dict[TopicPartition, int | None]
    ) -> None:
        self.sizes = sizes
        self.leaders = leaders
        self.moving: dict[TopicPartition, Reassignment] = {}
        self.replicas: dict[TopicPartition, tuple[int, ...]] = {}
        self.cluster = SimpleNamespace(refresh=lambda **_: None)

    def describe_log_dirs(self, brokers: list[int], *, timeout_ms: int) -> dict[int, Any]:
        return {broker: self._directories(broker) for broker in brokers}

    def _directories(self, broker: int) -> Any:
        if broker not in self.sizes:
            return AWAY
        return [
            LogDir(
                path,
                None,
                tuple(
                    ReplicaOnDisk(key[0] if key[-1] == "future" else key, size, 0, key[-1] == "future")
                    for key, size in rows.items()
                ),
                -1,
                -1,
            )
            for path, rows in self.sizes[broker].items()
        ]

    def list_partition_reassignments(self) -> dict[TopicPartition, Reassignment]:
        return self.moving

    def describe_topics(self, names: list[str]) -> dict[str, Any]:
        return {
            name: SimpleNamespace(
                partitions=[
                    PartitionDescription(each.partition, leader, self.replicas.get(each, (0,)), ())
                    for each, leader in self.leaders.items()
                    if each.topic == name
                ]
            )
            for name in names
        }


def prepared(
    current: dict[TopicPartition, tuple[int, ...]],
    proposed: dict[TopicPartition, tuple[int, ...]],
    leaders: dict[TopicPartition, int | None],
    *,
    moving: dict[TopicPartition, Reassignment] | None = None,
    log_dirs: dict[TopicPartitionReplica, str] | None = None,
) -> Prepared:
    return Prepared(current, proposed, moving or {}, log_dirs or {}, leaders, frozenset({0, 1, 2}))


def test_a_copy_is_as_long_as_the_leaders_replica_for_each_broker_that_is_added() -> None:
    admin: Any = FakeAdmin({0: {"/d": {A0: 100}}, 1: {"/d": {A0: 90}}, 2: {"/d": {}}, 3: {"/d": {}}}, {})
    plan = prepared({A0: (0, 1)}, {A0: (1, 2, 3)}, {A0: 0})
    found = run.foresee(admin, plan, timeout_ms=1)
    assert found.partitions == {A0: Copies(0, 100, {2: 0, 3: 0})}
    assert found.partitions[A0].bytes_left == {2: 100, 3: 100}
    assert disk.traffic(found.partitions) == Traffic({2: 100, 3: 100}, {0: 200}, ())


def test_without_a_leader_the_largest_replica_counts_and_without_any_nothing_is_known() -> None:
    admin: Any = FakeAdmin({0: {"/d": {A0: 80}}, 1: {"/d": {A0: 90}}, 2: {"/d": {}}}, {})
    plan = prepared({A0: (0, 1), A1: (9,)}, {A0: (1, 2), A1: (2,)}, {A0: None, A1: None})
    found = run.foresee(admin, plan, timeout_ms=1)
    assert found.partitions[A0].bytes_left == {2: 90}
    assert found.partitions[A1].bytes_left is None
    forecast = Forecast(plan, found, 10)
    assert (forecast.total_bytes, forecast.seconds, forecast.bytes_of(A1)) == (None, None, None)
    text = "\n".join(forecast.lines(None))
    assert "Would move a-1 from 9 to 2. How many bytes that is is not known" in text
    assert "Would copy at least 90 bytes between brokers in all." in text


def test_what_is_there_already_of_a_move_under_way_is_not_copied_again() -> None:
    admin: Any = FakeAdmin({0: {"/d": {A0: 100}}, 1: {"/d": {A0: 30}}}, {})
    moving = {A0: Reassignment((1, 0), (1,), (0,))}
    plan = prepared({A0: (1, 0)}, {A0: (1,)}, {A0: 0}, moving=moving)
    assert run.foresee(admin, plan, timeout_ms=1).partitions[A0].bytes_left == {1: 70}


def test_another_order_of_brokers_copies_nothing() -> None:
    admin: Any = FakeAdmin({}, {})
    plan = prepared({A0: (0, 1)}, {A0: (1, 0)}, {A0: 0})
    found = run.foresee(admin, plan, timeout_ms=1)
    assert found.partitions[A0].bytes_left == {}
    assert Forecast(plan, found, None).total_bytes == 0


def test_a_move_to_a_directory_copies_what_lies_elsewhere_on_its_broker() -> None:
    here, there, absent, away = (TopicPartitionReplica("a", 0, broker) for broker in (0, 1, 2, 9))
    admin: Any = FakeAdmin({0: {"/d": {A0: 5}}, 1: {"/e": {A0: 6}}, 2: {}}, {})
    plan = prepared(
        {A0: (0, 1)}, {A0: (0, 1)}, {A0: 0}, log_dirs=dict.fromkeys((here, there, absent, away), "/e")
    )
    found = run.foresee(admin, plan, timeout_ms=1)
    assert found.replicas == {here: 5, there: 0, absent: 0, away: None}


def test_a_dry_run_says_the_bytes_of_partitions_of_brokers_and_of_all_and_how_long() -> None:
    admin: Any = FakeAdmin({0: {"/d": {A0: 3_000_000, A1: 10}}, 1: {"/d": {A1: 10}}, 2: {"/d": {}}}, {})
    plan = prepared({A0: (0,), A1: (0, 1)}, {A0: (2, 1), A1: (0, 2)}, {A0: 0, A1: 0})
    forecast = Forecast(plan, run.foresee(admin, plan, timeout_ms=1), 1_000)
    assert list(forecast.lines(7)) == [
        "Would set the inter-broker throttle limit to 1000 B/s.",
        "Would set the replica-alter-dir throttle limit to 7 B/s.",
        "Would move a-0 from 0 to 2,1. 6000000 bytes (5.7 MiB) to copy.",
        "Would move a-1 from 0,1 to 0,2. 10 bytes to copy.",
        "Would copy 3000000 bytes (2.9 MiB) to broker 1.",
        "Would copy 3000010 bytes (2.9 MiB) to broker 2.",
        "Would copy 6000010 bytes (5.7 MiB) between brokers in all.",
        "At 1000 B/s in and out of a broker that takes 1 h 40 min or longer.",
    ]
    assert forecast.broker_rows() == [
        {"broker": 0, "bytes_in": 0, "bytes_out": 6_000_010},
        {"broker": 1, "bytes_in": 3_000_000, "bytes_out": 0},
        {"broker": 2, "bytes_in": 3_000_010, "bytes_out": 0},
    ]
    assert (forecast.total_bytes, forecast.seconds) == (6_000_010, 6_001)
    stopped = Forecast(plan, forecast.foreseen, 0)
    assert stopped.seconds is None
    assert list(stopped.lines(None))[-1] == "At 0 B/s nothing would ever be copied."


@pytest.mark.parametrize(
    ("copies", "done", "total"),
    [
        (Copies(0, 100, {1: 40, 2: 0}), 40, 200),
        (Copies(0, 100, {1: 140}), 100, 100),  # the leader has deleted the beginning
        (Copies(0, 100, {1: None, 2: 5}), None, 200),
        (Copies(None, None, {1: 5}), None, None),
        (Copies(0, None, {}), 0, 0),
    ],
)
def test_how_far_copies_are(copies: Copies, done: int | None, total: int | None) -> None:
    assert (copies.bytes_done, copies.bytes_total) == (done, total)


def test_progress_is_what_the_added_brokers_have_of_the_leaders_bytes() -> None:
    admin: Any = FakeAdmin({0: {"/d": {A0: 100}}, 1: {"/d": {A0: 100}}, 2: {"/d": {A0: 25}}}, {A0: 1})
    moving = {A0: Reassignment((2, 0, 1), (2,), (0,))}
    found = run.progress(admin, moving, timeout_ms=1)
    assert (found[A0].bytes_done, found[A0].bytes_total) == (25, 100)


def test_a_broker_that_is_away_hides_its_replicas_and_nothing_else() -> None:
    admin: Any = FakeAdmin({0: {"/d": {A0: 8}, "/e": {(A0, "future"): 3}}}, {A0: 0})
    admin.replicas = {A0: (0, 9)}
    here, away = TopicPartitionReplica("a", 0, 0), TopicPartitionReplica("a", 0, 9)
    wanted = Wanted(((A0, (0, 9)),), {here: "/e", away: "/e"})
    found = run.verify(admin, wanted, timeout_ms=1)
    assert [each.state for each in found.partitions] == [State.COMPLETED]
    assert [(each.state, each.bytes_done, each.bytes_total) for each in found.replicas] == [
        (LogDirState.IN_PROGRESS, 3, 8),
        (LogDirState.UNKNOWN, None, None),
    ]
    assert found.silent is AWAY
    assert found.is_ongoing
    assert not found.will_arrive


# -- waiting ----------------------------------------------------------------------------------------------


def look_at(*answers: Verified | Exception) -> Any:
    left = iter(answers)

    def look() -> Verified:
        answer = next(left)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return look


DONE = Verified([], [], {})


def test_who_waits_waits_for_a_broker_that_is_away() -> None:
    there = TopicPartitionReplica("a", 0, 9)
    unknown = ReplicaState(there, None, None, "/e", LogDirState.UNKNOWN)
    told: list[str] = []
    found = run.wait_until_complete(
        look_at(Verified([], [unknown], {}, AWAY), AWAY, DONE), 30, lambda _, why: told.append(why)
    )
    assert found is DONE
    assert told == [str(AWAY), str(AWAY)]


def test_who_waits_gives_up_where_that_cannot_help_and_at_the_end() -> None:
    refused = ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    with pytest.raises(ApiError) as caught:
        run.wait_until_complete(look_at(refused), 30, lambda *_: None)
    assert caught.value is refused
    with pytest.raises(ApiError) as caught:
        run.wait_until_complete(look_at(AWAY), 0, lambda *_: None)
    assert caught.value is AWAY


def test_what_has_arrived_counts_on_while_the_rest_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    disks: dict[int, dict[str, dict[Any, int]]] = {
        0: {"/d": {A0: 100, A1: 300}},
        1: {"/d": {A0: 50, A1: 100}},
    }
    admin: Any = FakeAdmin(disks, {A0: 0, A1: 0})
    admin.moving = dict.fromkeys((A0, A1), Reassignment((0, 1), (1,), ()))
    looks = iter(range(9))

    def look(*_: object, **__: object) -> Verified:
        number = next(looks)
        for each in [A0, A1][:number]:  # one after another
            admin.moving.pop(each, None)
            admin.replicas[each] = (0, 1)
        return verify(admin, wanted, timeout_ms=1)

    verify, wanted = run.verify, Wanted(((A0, (0, 1)), (A1, (0, 1))), {})
    monkeypatch.setattr(run, "verify", look)
    monkeypatch.setattr(progress, "_TOLD_EVERY_S", 0)
    found = progress.wait_for_all(admin, wanted, 30, timeout_ms=1)
    assert found.left == 0
    assert capsys.readouterr().err.splitlines() == [
        "2 of 2 are not where they are to be yet; 150 of 400 bytes copied (37 %)",
        "1 of 2 are not where they are to be yet; 200 of 400 bytes copied (50 %)",
    ]


# -- the way back -----------------------------------------------------------------------------------------


def test_the_way_back_lies_beside_the_plan_and_is_never_written_over(tmp_path: Path) -> None:
    plan = tmp_path / "move.json"
    plan.write_text("{}")
    first = rollback.write_beside(plan, "one")
    assert first == tmp_path / "move.rollback.json"
    assert first.read_text() == "one\n"
    assert rollback.write_beside(plan, "one") == first
    assert rollback.write_beside(plan, "two") == tmp_path / "move.rollback-2.json"
    assert first.read_text() == "one\n"
    assert rollback.write_beside(Path("/dev/stdin"), "x") is None
    with pytest.raises(FileExistsError):
        rollback.write_new(first, "three")


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 bytes"),
        (1_023, "1023 bytes"),
        (1_024, "1024 bytes (1.0 KiB)"),
        (2**60, f"{2**60} bytes (1024.0 PiB)"),
    ],
)
def test_bytes_are_said_exactly_and_in_a_unit(size: int, text: str) -> None:
    assert size_text(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59, "59 s"), (60, "1 min"), (125, "2 min 5 s"), (7_199, "1 h 59 min"), (90_000, "1 d 1 h")],
)
def test_a_duration_has_two_units_at_most(seconds: int, text: str) -> None:
    assert duration_text(seconds) == text
