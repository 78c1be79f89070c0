"""One connector as it runs. A thread of its own calls its code, so that one that hangs holds up no other."""

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Final, TypeVar

from pkafka.connect.caller_thread import CallerThread
from pkafka.connect.connector import Connector
from pkafka.connect.connector_config import ConnectorSettings, is_sink
from pkafka.connect.errors import ConnectError, TooManyTasksError
from pkafka.connect.plugins import name_of
from pkafka.connect.states import State, Target
from pkafka.connect.traces import trace_of

log = logging.getLogger("org.apache.kafka.connect.runtime.WorkerConnector")

ResultT = TypeVar("ResultT")

PATIENCE_S: Final = 90.0
"""How long a request waits for a connector."""


_REACHED: Final = {
    Target.STARTED: State.RUNNING,
    Target.PAUSED: State.PAUSED,
    Target.STOPPED: State.STOPPED,
}


class ConnectorRun:
    """Starts and stops a connector, and asks it for its tasks.

    Args:
        name: of the connector.
        connector: just made.
        settings: that every connector has.
        configs: of the connector, with the values that providers gave.
        report: hears of every change of state, with the trace of a failure.
        reconfigure: the connector asks to be asked for its tasks again.
    """

    def __init__(
        self,
        name: str,
        connector: Connector,
        settings: ConnectorSettings,
        configs: Mapping[str, str],
        *,
        report: Callable[[State, str | None], None],
        reconfigure: Callable[[], None],
    ) -> None:
        self.name = name
        self.settings = settings
        self.is_sink = is_sink(type(connector))
        self._connector = connector
        self._configs = dict(configs)
        self._report = report
        self._reconfigure = reconfigure
        self._thread = CallerThread(f"connector-thread-{name}")
        self._state = State.UNASSIGNED
        self._is_abandoned = False

    @property
    def state(self) -> State:
        """What the connector does."""
        return self._state

    def aim(self, target: Target) -> None:
        """Start or stop the connector; what goes wrong is reported as its state.

        Raises:
            ConnectError: the connector takes longer than a request may.
        """
        self._call(lambda: self._aim(target))

    def aim_soon(self, target: Target, then: Callable[[State], None]) -> None:
        """Start or stop the connector, without waiting for it.

        Args:
            then: takes the state that the connector has afterwards, on the connector's thread.
        """
        self._thread.submit(lambda: self._aim(target)).add_done_callback(lambda _future: then(self._state))

    def _aim(self, target: Target, afterwards: State | None = None) -> None:
        try:
            if target is Target.STARTED and self._state is not State.RUNNING:
                self._connector.initialize(_Context(self))
                self._connector.start(self._configs)
            elif target is not Target.STARTED and self._state is State.RUNNING:
                self._connector.stop()
        except BaseException as error:
            log.exception("[Connector %s] Error while starting or stopping connector", self.name)
            self._become(State.FAILED, trace_of(error))
            return
        self._become(afterwards or _REACHED[target])

    def _end(self) -> None:
        """Stop the connector for good: it belongs to nobody then."""
        self._aim(Target.STOPPED, State.UNASSIGNED)

    def task_configs(self) -> list[dict[str, str]]:
        """The configurations of the tasks.

        Raises:
            ConnectError: the connector makes too many, fails, or takes too long.
        """
        return self._call(self._task_configs)

    def task_configs_soon(self) -> "Future[list[dict[str, str]]]":
        """The same, without waiting for the connector."""
        return self._thread.submit(self._task_configs)

    def _task_configs(self) -> list[dict[str, str]]:
        most = self.settings.tasks_max
        made = self._connector.task_configs(most)
        if len(made) > most:
            text = f"The connector {self.name} has generated {len(made)} tasks, which is greater than {most},"
            text += " the maximum"
            if self.settings.parsed["tasks.max.enforce"]:
                raise TooManyTasksError(f"{text} number of tasks it is configured to create. ")
            log.warning("%s; tasks.max.enforce is off, so that all of them run", text)
        return [self._with_own(configs) for configs in made]

    def _with_own(self, configs: Mapping[str, str]) -> dict[str, str]:
        own = {**configs, "task.class": name_of(self._connector.task_class)}
        for name in ("topics", "topics.regex") if self.is_sink else ():
            if self._configs.get(name):
                own[name] = self._configs[name]
        return own

    def ask(self, question: Callable[[Connector], ResultT]) -> ResultT:
        """Call the connector's code.

        Raises:
            ConnectError: it takes too long.
            Exception: what it raised.
        """
        return self._call(lambda: question(self._connector))

    def shut_down(self, timeout_s: float) -> bool:
        """Stop the connector; one that takes longer is left behind.

        Returns:
            Whether it has ended.
        """
        stopping: Future[None] = self._thread.submit(self._end)
        try:
            stopping.result(timeout_s)
        except FutureTimeoutError:
            log.error("[Connector %s] did not stop in %g seconds; it is left behind", self.name, timeout_s)
            self._is_abandoned = True
        self._thread.close()
        return not self._is_abandoned

    def failed(self, error: BaseException) -> None:
        """The connector says that it cannot go on."""
        self._become(State.FAILED, trace_of(error))

    def wants_tasks(self) -> None:
        """The connector says that its tasks have changed."""
        self._reconfigure()

    def _become(self, state: State, trace: str | None = None) -> None:
        self._state = state
        if not self._is_abandoned:
            self._report(state, trace)

    def _call(self, act: Callable[[], ResultT]) -> ResultT:
        try:
            return self._thread.submit(act).result(PATIENCE_S)
        except SystemExit as error:
            raise ConnectError(f"The connector {self.name} called sys.exit()") from error
        except FutureTimeoutError as error:
            raise ConnectError(
                f"The connector {self.name} has not answered in {PATIENCE_S:g} seconds"
            ) from error


class _Context:
    def __init__(self, run: ConnectorRun) -> None:
        self._run = run

    def request_task_reconfiguration(self) -> None:
        self._run.wants_tasks()

    def raise_error(self, error: Exception) -> None:
        self._run.failed(error)


def same_configs(one: Sequence[Mapping[str, str]], other: Sequence[Mapping[str, str]]) -> bool:
    """Whether tasks would be the same."""
    return [dict(each) for each in one] == [dict(each) for each in other]
