"""What a cluster is to run, from the records of its config topic."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkafka.connect.states import Target, TaskName
from pkafka.connect.storage import config_records as records
from pkafka.connect.storage.config_records import ConfigRecord
from pkafka.connect.storage.config_state import (
    NOTHING_READ,
    Change,
    ClusterConfig,
    ConfigLog,
    ConnectorChanged,
    ConnectorRemoved,
    LoggerLevel,
    RestartAsked,
    SessionKeyChanged,
    TargetChanged,
    TaskCountChanged,
    TasksChanged,
    task_of,
)
from pkafka.connect.storage.session_key import SessionKey

KEY = SessionKey(b"secret", "HmacSHA256", 7)
CONNECTOR = records.connector_record("c", {"n": "1"})


def tasks(*configs: Mapping[str, str]) -> list[ConfigRecord]:
    """What a leader writes of the tasks of the connector c."""
    written = [records.task_record(TaskName("c", number), each) for number, each in enumerate(configs)]
    return [*written, records.commit_record("c", len(configs))]


def fold(found: Sequence[ConfigRecord]) -> tuple[ClusterConfig, list[Change]]:
    log = ConfigLog()
    changes = [change for offset, each in enumerate(found) for change in log.apply(*each, offset)]
    return log.state(), changes


def test_nothing_is_known_of_an_empty_topic() -> None:
    state, _ = fold([])
    assert state == ClusterConfig()
    assert state.offset == NOTHING_READ


def test_a_connector_with_its_tasks() -> None:
    state, changes = fold([CONNECTOR, *tasks({"t": "0"}, {"t": "1"})])
    assert state.connectors() == ["c"]
    assert state.connector("c") == {"n": "1"}
    assert state.target("c") is Target.STARTED
    assert state.tasks("c") == [TaskName("c", 0), TaskName("c", 1)]
    assert state.all_task_configs("c") == [{"t": "0"}, {"t": "1"}]
    assert state.is_pending_fencing("c")
    assert state.task_config_generations == {"c": 0}
    assert changes == [ConnectorChanged("c"), TasksChanged("c", (TaskName("c", 0), TaskName("c", 1)))]


def test_the_offset_is_behind_the_last_record() -> None:
    log = ConfigLog()
    log.apply(*CONNECTOR, 4)
    log.apply(
        b"nonsense", b"{}", 9
    )  # between the two are markers of transactions, or records that compaction removed
    assert log.state().offset == 10
    log.apply(b"connector-c", b"{", 11)  # Java's worker does not count what is no JSON
    assert log.state().offset == 10


def test_tasks_wait_for_their_commit() -> None:
    state, changes = fold([CONNECTOR, *tasks({"t": "0"})[:-1]])
    assert (state.tasks("c"), state.all_task_configs("c"), len(changes)) == ([], [], 1)


def test_a_connector_of_whose_tasks_some_are_missing_is_inconsistent() -> None:
    left_by_compaction = [CONNECTOR, tasks({}, {"t": "1"})[1], records.commit_record("c", 2)]
    state, changes = fold(left_by_compaction)
    assert state.inconsistent == {"c"}
    assert (state.tasks("c"), state.all_task_configs("c"), state.task_count("c")) == ([], [], 2)
    assert changes[-1] == TasksChanged("c", ())
    healed, _ = fold([*left_by_compaction, *tasks({"t": "2"})])
    assert healed.inconsistent == frozenset()
    assert healed.all_task_configs("c") == [{"t": "2"}]


def test_what_a_commit_did_not_take_is_forgotten() -> None:
    first, second = tasks({}, {})[:2]
    commit = records.commit_record("c", 2)
    state, _ = fold([CONNECTOR, second, commit, first, commit])
    assert state.inconsistent == {"c"}


def test_tasks_of_a_removed_connector_are_not_those_of_the_next() -> None:
    found = [CONNECTOR, tasks({})[0], *records.connector_tombstones("c"), CONNECTOR]
    state, _ = fold([*found, records.commit_record("c", 1)])
    assert state.inconsistent == {"c"}


def test_tasks_without_a_connector_are_ignored() -> None:
    state, changes = fold(tasks({"t": "0"}))
    assert (state.task_configs, state.task_counts, state.pending_fencing) == ({}, {}, frozenset())
    assert changes == []


def test_tasks_remember_by_which_configuration_they_were_made() -> None:
    state, _ = fold([CONNECTOR, *tasks({}), records.connector_record("c", {"n": "2"})])
    assert state.applied_connector_configs == {"c": {"n": "1"}}
    assert state.connector("c") == {"n": "2"}


def test_fewer_tasks_leave_the_rest_uncounted() -> None:
    state, _ = fold([CONNECTOR, *tasks({}, {}), *tasks({"t": "2"})])
    assert state.all_task_configs("c") == [{"t": "2"}]
    assert state.task_config_generations == {"c": 1}


def test_a_connector_that_is_removed() -> None:
    written = [CONNECTOR, *tasks({}), records.task_count_record("c", 1), *records.connector_tombstones("c")]
    state, changes = fold(written)
    assert not state.contains("c")
    assert (state.tasks("c"), state.targets, state.task_configs) == ([], {}, {})
    assert state.task_count_records == {"c": 1}  # its tasks may run still
    assert changes[-1] == ConnectorRemoved("c")


def test_what_a_connector_is_to_do() -> None:
    before = records.target_record("c", Target.STOPPED)
    state, changes = fold([before, CONNECTOR])
    assert state.target("c") is Target.STOPPED
    assert changes == [ConnectorChanged("c")]
    paused = records.target_record("c", Target.PAUSED)
    _, changes = fold([before, CONNECTOR, paused, paused])
    assert changes == [ConnectorChanged("c"), TargetChanged("c")]
    state, _ = fold([before, CONNECTOR, records.target_tombstone("c")])
    assert state.target("c") is Target.STARTED


@pytest.mark.parametrize(
    ("value", "target"),
    [
        (b'{"state":"PAUSED","state.v2":"STOPPED"}', Target.STOPPED),
        (b'{"state":"PAUSED"}', Target.PAUSED),
        (b'{"state":"PAUSED","state.v2":7}', Target.PAUSED),
        (b'{"state":"LOST"}', Target.STARTED),
        (b"[]", Target.STARTED),
    ],
)
def test_older_workers_know_fewer_targets(value: bytes, target: Target) -> None:
    state, _ = fold([CONNECTOR, ConfigRecord(b"target-state-c", value)])
    assert state.target("c") is target


def test_fencing_is_due_when_tasks_come_after_the_count() -> None:
    count = records.task_count_record("c", 2)
    state, changes = fold([CONNECTOR, *tasks({}, {}), count])
    assert not state.is_pending_fencing("c")
    assert changes[-1] == TaskCountChanged("c", 2)
    state, _ = fold([CONNECTOR, *tasks({}, {}), count, *tasks({})])
    assert state.is_pending_fencing("c")
    assert state.task_count_records == {"c": 2}


def test_what_concerns_all_workers() -> None:
    state, changes = fold(
        [
            records.session_key_record(KEY),
            records.restart_record("c", only_failed=True, include_tasks=False),
            records.logger_record("a.b", "DEBUG"),
            ConfigRecord(b"restart-connector-c", b'{"only-failed":"x"}'),
        ]
    )
    assert state.session_key == KEY
    assert changes == [
        SessionKeyChanged(KEY),
        RestartAsked("c", only_failed=True, include_tasks=False),
        LoggerLevel("a.b", "DEBUG"),
        RestartAsked("c", only_failed=False, include_tasks=False),
    ]
    assert "secret" not in repr(changes)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"{}"),
        (b"task-c-x", b'{"properties":{}}'),
        (b"task-c-0", None),
        (b"task-c-0", b"{}"),
        (b"connector-c", b"[]"),
        (b"commit-c", b"{}"),
        (b"commit-c", None),
        (b"commit-c", b'{"tasks":true}'),
        (b"tasks-fencing-c", b'{"task-count":"1"}'),
        (b"restart-connector-c", b"[]"),
        (b"logger-cluster-c", b'{"level":1}'),
        (b"session-key", b'{"key":"%","algorithm":"a","creation-timestamp":1}'),
        (b"session-key", None),
    ],
)
def test_what_cannot_be_read_changes_nothing(key: bytes | None, value: bytes | None) -> None:
    log = ConfigLog()
    log.apply(*CONNECTOR, 0)
    before = log.state()
    assert log.apply(key, value, 1) == ()
    after = log.state()
    assert (after.connector_configs, after.task_counts) == (before.connector_configs, before.task_counts)
    assert (after.session_key, after.inconsistent) == (None, frozenset())


@pytest.mark.parametrize(
    ("text", "task"), [("c-0", ("c", 0)), ("a-b-12", ("a-b", 12)), ("a--1", ("a-", 1)), ("c-1-", ("c", 1))]
)
def test_tasks_are_named_by_connectors_with_hyphens(text: str, task: tuple[str, int]) -> None:
    assert task_of(text) == task


@pytest.mark.parametrize("text", ["", "c", "c-x", "7", "c-99999999999"])
def test_what_names_no_task(text: str) -> None:
    assert task_of(text) is None


# -- laws ---------------------------------------------------------------------------------------------------


@st.composite
def histories(draw: st.DrawFn) -> list[ConfigRecord]:
    """What leaders write, some of which die between two records."""
    found: list[ConfigRecord] = []
    for _ in range(draw(st.integers(0, 8))):
        number = draw(st.integers(0, 3))
        what = draw(st.sampled_from(["connector", "tasks", "tasks", "remove", "target", "count"]))
        mark = {"n": str(len(found))}
        if what == "connector":
            found.append(records.connector_record("c", mark))
        elif what == "tasks":
            whole = tasks(*[mark] * number)
            found += whole[: draw(st.integers(0, len(whole)))] if draw(st.booleans()) else whole
        elif what == "remove":
            found += records.connector_tombstones("c")
        elif what == "target":
            found.append(records.target_record("c", draw(st.sampled_from(Target))))
        else:
            found.append(records.task_count_record("c", number))
    return found


def compacted(found: Sequence[ConfigRecord]) -> list[tuple[int, ConfigRecord]]:
    last = {each.key: offset for offset, each in enumerate(found)}
    return [(offset, each) for offset, each in enumerate(found) if last[each.key] == offset]


@given(histories())
def test_after_compaction_tasks_are_the_same_or_none(found: list[ConfigRecord]) -> None:
    whole, _ = fold(found)
    log = ConfigLog()
    for offset, each in compacted(found):
        log.apply(*each, offset)
    state = log.state()
    assert state.connector_configs == whole.connector_configs
    assert state.offset == whole.offset
    assert state.task_count_records == whole.task_count_records
    assert state.target("c") == whole.target("c")
    assert state.all_task_configs("c") in (whole.all_task_configs("c"), [])


@given(histories())
def test_the_state_is_what_was_said_last(found: list[ConfigRecord]) -> None:
    """A second opinion, which looks backwards instead of folding."""
    state, _ = fold(found)
    said = {each.key: each.value for each in found}
    is_there = said.get(b"connector-c") is not None
    assert state.contains("c") is is_there
    removed = max((i for i, each in enumerate(found) if each == (b"connector-c", None)), default=-1)
    since = found[removed + 1 :]
    created = next((i for i, each in enumerate(since) if each.key == b"connector-c"), len(since))
    commits = [i for i, each in enumerate(since) if each.key == b"commit-c" and i > created]
    assert (state.task_counts.get("c") is not None) is bool(commits)
    if commits:
        previous = next((i for i in reversed(range(commits[-1])) if since[i].key == b"commit-c"), -1)
        written = {each.key for each in since[previous + 1 : commits[-1]]}
        count = state.task_count("c")
        assert since[commits[-1]] == records.commit_record("c", count)
        is_whole = all(f"task-c-{number}".encode() in written for number in range(count))
        assert ("c" in state.inconsistent) is not is_whole
        assert len(state.all_task_configs("c")) == (count if is_whole else 0)
    keys = [each.key for each in found]
    if b"tasks-fencing-c" in keys and b"commit-c" not in keys[keys.index(b"tasks-fencing-c") :]:
        assert not state.is_pending_fencing("c")
