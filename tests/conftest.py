"""What holds for every test: how Hypothesis searches, that CI skips nothing, that no test leaves a process behind."""

import os
import uuid
from collections.abc import Generator, Iterator
from pathlib import Path

import hypothesis
import psutil
import pytest
from xdist.scheduler import LoadFileScheduling

from pkafka.hot_path import is_compiled
from tests.compiled import skip_what_is_not_looked_up
from tests.forked_brokers import brokers, fork_brokers
from tests.forked_commands import commands
from tests.spark import SMALL_JVMS, spark_sessions
from tests.zookeeper import zookeeper

__all__ = ["spark_sessions", "zookeeper"]

os.environ.update(SMALL_JVMS)
fork_brokers()

_HERE = Path(__file__).parent
IN_CI = os.environ.get("CI") == "true"
_MARK_VARIABLE = "PKAFKA_TEST_RUN"

# Both are without a deadline: on a shared machine a slow example says nothing. `quick` always makes the same
# examples, so that a failure is never a matter of luck; `deep` searches anew each time.
hypothesis.settings.register_profile("quick", derandomize=True, deadline=None, max_examples=25)
hypothesis.settings.register_profile("deep", deadline=None, max_examples=1_000, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


@pytest.fixture
def monkeypatch() -> Iterator[pytest.MonkeyPatch]:
    """As pytest's own, but see :func:`skip_what_is_not_looked_up` where the hot path is compiled."""
    with pytest.MonkeyPatch.context() as patch:
        if is_compiled():
            skip_what_is_not_looked_up(patch)
        yield patch


_MARKED_FOLDERS = ("interop", "e2e", "faults")
_WITH_SPARK = (
    "e2e/pipeline/",
    "interop/test_lag_report.py",
    "interop/test_spark_dump.py",
    "interop/test_spark_topics.py",
)
"""They share the session of one process: each further one takes half a minute of all cores."""
_FIRST = (
    *_WITH_SPARK,
    "interop/test_session.py",
    "interop/test_mixed_cluster.py",
    "faults/",
    "interop/test_data_directories.py",
    "interop/test_compaction.py",
)
"""Files that take minutes come before the others, so that no worker is left with one of them at the end."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadFileScheduling | None:
    """How ``--dist loadfile`` shares out the tests: a file at a time, and those with Spark as if they were one."""
    if config.getoption("dist") != "loadfile":
        return None
    scheduling = LoadFileScheduling(config, log)
    file_of = scheduling._split_scope

    def scope_of(nodeid: str) -> str:
        file: str = file_of(nodeid)
        return "Spark" if file.removeprefix("tests/").startswith(_WITH_SPARK) else file

    scheduling._split_scope = scope_of
    return scheduling


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests in tests/interop, tests/e2e and tests/faults have the mark of that name; slow files come first."""
    items.sort(key=_turn)
    for item in items:
        for folder in _MARKED_FOLDERS:
            if folder in item.path.relative_to(_HERE).parts:
                item.add_marker(folder)


def _turn(item: pytest.Item) -> int:
    path = item.path.relative_to(_HERE).as_posix()
    return next((turn for turn, start in enumerate(_FIRST) if path.startswith(start)), len(_FIRST))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI a skipped test is a failed one: CI installs what tests need, so a skip would hide that it did not."""
    report = yield
    if IN_CI and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped in CI: {_reason(report.longrepr)}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for a module that is skipped as a whole."""
    report = yield
    if IN_CI and report.skipped:
        report.outcome = "failed"
        report.longrepr = f"skipped in CI: {_reason(report.longrepr)}"
    return report


def _reason(longrepr: object) -> object:
    return longrepr[2] if isinstance(longrepr, tuple) else longrepr


@pytest.fixture(scope="session", autouse=True)
def no_process_is_left() -> Iterator[None]:
    """Fails the session when processes started by its tests outlive it, and ends them.

    Programs that a test starts inherit a variable that marks this session, so daemons whose parent is gone are found
    as well as children.
    """
    mark = f"{os.getpid()}-{uuid.uuid4().hex}"
    before = os.environ.get(_MARK_VARIABLE)
    os.environ[_MARK_VARIABLE] = mark
    yield
    commands.close()
    brokers.close()
    if before is None:
        del os.environ[_MARK_VARIABLE]
    else:
        os.environ[_MARK_VARIABLE] = before
    left = _marked_processes(mark)
    for process in left.copy():
        try:
            process.wait(timeout=60)  # it may be just about to end
            del left[process]
        except psutil.TimeoutExpired:
            process.kill()
    assert not left, f"tests left {len(left)} processes behind: {list(left.values())}"


def _marked_processes(mark: str) -> dict[psutil.Process, str]:
    found: dict[psutil.Process, str] = {}
    children = set(psutil.Process().children(recursive=True))
    for process in psutil.process_iter():
        try:
            if process.pid == os.getpid():
                continue
            # Forks of this process do not show the variable: the system keeps the environment of the last exec.
            if process not in children and process.environ().get(_MARK_VARIABLE) != mark:
                continue
            command = " ".join(process.cmdline())
        except psutil.Error:
            continue
        # Python's own, for semaphores and shared memory; it ends with this process.
        if command and "resource_tracker" not in command:
            found[process] = f"{process.pid} {command[:200]}"
    return found
