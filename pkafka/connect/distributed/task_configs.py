"""The configurations of a connector's tasks, from the connector to the configuration topic: written by the leader, or
sent to it. What fails is tried again, since a connector without its tasks would do nothing for ever.
"""

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Final, Protocol

from pkafka.connect.connector_run import same_configs
from pkafka.connect.distributed.herder_loop import HerderLoop
from pkafka.connect.errors import TooManyTasksError
from pkafka.connect.rest_errors import bad_request
from pkafka.connect.runner import ConnectorHandle
from pkafka.connect.states import State, Target
from pkafka.connect.storage.config_state import ClusterConfig

log = logging.getLogger("org.apache.kafka.connect.runtime.distributed.DistributedHerder")

_FIRST_RETRY_S: Final = 0.25
_LAST_RETRY_S: Final = 60.0
_VARIABLE: Final = re.compile(r"\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}")


class Writes(Protocol):
    """What is needed of the configuration topic."""

    def put_tasks(self, name: str, configs: Sequence[Mapping[str, str]]) -> None: ...


Forward = Callable[[str, list[dict[str, str]]], "Future[object]"]
"""Sends tasks of a connector to the leader."""


class TaskConfigs:
    """Asks connectors for their tasks, and has changed ones written. On the herder's thread, but for connectors' code.

    Args:
        loop: the herder's thread.
        topic: is written by the leader.
        runs: the connectors that are here.
        forward: sends tasks to the leader.
    """

    def __init__(
        self, loop: HerderLoop, topic: Writes, runs: Mapping[str, ConnectorHandle], forward: Forward
    ) -> None:
        self._loop = loop
        self._topic = topic
        self._runs = runs
        self._forward = forward

    def ask(self, connector: str, attempt: int = 0) -> None:
        """Ask a connector for its tasks; any thread may call it.

        Args:
            attempt: how often that has failed.
        """
        delay_s = 0.0 if attempt == 0 else min(_FIRST_RETRY_S * 2 ** (attempt - 1), _LAST_RETRY_S)
        asked = self._loop.requests.submit(lambda: self._ask(connector, attempt), delay_s)
        asked.add_done_callback(lambda future: self._tell(connector, attempt, future))

    def write(self, connector: str, tasks: Sequence[Mapping[str, str]]) -> None:
        """Write tasks as the leader.

        Raises:
            RestError: the connector is stopped.
            ConnectError: they cannot be written.
        """
        if tasks and self._loop.configs.target(connector) is Target.STOPPED:
            raise bad_request(
                f"Cannot submit non-empty set of task configs for stopped connector {connector}"
            )
        self._loop.write_as_leader(
            f"writing {len(tasks)} task configs for connector {connector} to the config topic",
            lambda: self._topic.put_tasks(connector, tasks),
        )

    def _ask(self, connector: str, attempt: int) -> None:
        run = self._runs.get(connector)
        if (
            run is None
            or run.state is not State.RUNNING
            or not self._loop.configs.contains(connector)
            or self._loop.configs.target(connector) is not Target.STARTED
        ):
            log.info("Skipping reconfiguration of connector %s since it is not running", connector)
            return

        def publish(made: "Future[list[dict[str, str]]]") -> None:
            published = self._loop.requests.submit(lambda: self._publish(connector, made, attempt))
            published.add_done_callback(lambda future: self._tell(connector, attempt, future))

        run.task_configs_soon().add_done_callback(publish)

    def _publish(self, connector: str, made: "Future[list[dict[str, str]]]", attempt: int) -> None:
        wanted = raw_configs(self._loop.configs, connector, made.result())
        if not self._loop.configs.contains(connector) or same_configs(
            wanted, self._loop.configs.all_task_configs(connector)
        ):
            return
        if self._loop.is_leader:
            self.write(connector, wanted)
            return
        self._forward(connector, wanted).add_done_callback(
            lambda future: self._tell(connector, attempt, future)
        )

    def _tell(self, connector: str, attempt: int, future: "Future[object] | Future[None]") -> None:
        """Try again what has failed."""
        error = future.exception()
        if error is None or self._loop.is_stopping:
            return
        if isinstance(error, TooManyTasksError):
            run = self._runs.get(connector)
            if run is not None:
                run.failed(error)
            return
        log.error(
            "Failed to reconfigure connector's tasks (%s), retrying after backoff.", connector, exc_info=error
        )
        self.ask(connector, attempt + 1)


def raw_configs(
    configs: ClusterConfig, connector: str, tasks: Sequence[Mapping[str, str]]
) -> list[dict[str, str]]:
    """Configurations of tasks with the variables of the connector's configuration in place of their values.

    Secrets that config providers give so do not come into the configuration topic, and a secret that has changed makes
    no other tasks.
    """
    raw = configs.connector(connector) or {}
    variables = {name: text for name, text in raw.items() if _VARIABLE.search(text)}
    return [{name: variables.get(name, value) for name, value in each.items()} for each in tasks]
