"""Before tasks of an exactly-once source start, the producers of those that were before are fenced (KIP-618).

The leader does it: it fences by the transactional ids of as many tasks as there were, then writes how many there are
now. Tasks of one generation need it once.
"""

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future

from pkafka.connect.caller_thread import CallerThread
from pkafka.connect.distributed.herder_loop import HerderLoop
from pkafka.connect.errors import ConnectError
from pkafka.connect.rest_errors import bad_request, conflict, not_found
from pkafka.connect.storage.config_topic import ConfigTopic

log = logging.getLogger("org.apache.kafka.connect.runtime.distributed.DistributedHerder")

Fence = Callable[[str, Mapping[str, str], int], None]
"""Fences the producers of so many tasks of a connector, and returns when that is done."""


class Fencings:
    """Has zombies fenced, at most once at a time for a connector.

    Args:
        loop: the herder's thread.
        topic: in which counts of tasks are written.
        fence: asks the brokers.
        is_source: whether a configuration is that of a source.
    """

    def __init__(
        self,
        loop: HerderLoop,
        topic: ConfigTopic,
        fence: Fence,
        is_source: Callable[[Mapping[str, str]], bool],
    ) -> None:
        self._loop = loop
        self._topic = topic
        self._fence = fence
        self._is_source = is_source
        self._thread = CallerThread("zombie-fencing")
        self._active: dict[str, Future[None]] = {}
        """Under way; for the herder's thread alone."""

    def ask(self, connector: str) -> "Future[None]":
        """Have the zombies of a connector fenced, where that is needed. Any thread may call it.

        Returns:
            Done when its tasks may start; it may hold a RestError, an ElsewhereError or a ConnectError.
        """
        done: Future[None] = Future()

        def begun(begin: "Future[Future[None] | None]") -> None:
            error = begin.exception()
            if error is not None:
                done.set_exception(error)
                return
            under_way = begin.result()
            if under_way is None:
                done.set_result(None)
            else:
                under_way.add_done_callback(lambda future: _pass_on(future, done))

        self._loop.requests.submit(lambda: self._begin(connector)).add_done_callback(begun)
        return done

    def close(self) -> None:
        """Fence no more."""
        self._thread.close()

    def _begin(self, connector: str) -> "Future[None] | None":
        """Begin a fencing, or join the one that is under way; None: none is needed."""
        self._loop.see_that_leads("Only the leader may perform zombie fencing.")
        configs = self._loop.configs.connector(connector)
        if configs is None:
            raise not_found(f"Connector {connector} not found")
        if not self._is_source(configs):
            raise bad_request(f"Connector {connector} is not a source connector")
        if not self._loop.refresh():
            raise ConnectError("Failed to read to end of config topic before performing zombie fencing")
        now = self._loop.configs
        count, before = now.task_count(connector), now.task_count_records.get(connector)
        if not now.is_pending_fencing(connector):
            log.debug("Skipping zombie fencing round for connector %s: it was done", connector)
            return None
        if before is None or (before == 1 and count == 1):
            # None ran with a transaction before, or the one new task fences the one old task itself.
            self._write_count(connector, count)
            return None
        if connector not in self._active:
            self._active[connector] = self._start(
                connector, configs, before, count, now.task_config_generations.get(connector, 0)
            )
        return self._active[connector]

    def _start(
        self, connector: str, configs: Mapping[str, str], before: int, count: int, generation: int
    ) -> "Future[None]":
        done: Future[None] = Future()

        def finish() -> None:
            if not self._loop.refresh():
                raise ConnectError("Failed to read to end of config topic")
            if generation < self._loop.configs.task_config_generations.get(connector, 0):
                raise conflict(
                    "Fencing failed because new task configurations were generated for the connector"
                )
            self._write_count(connector, count)

        def fenced(fencing: "Future[None]") -> None:
            error = fencing.exception()
            if error is None:
                self._loop.requests.submit(finish).add_done_callback(ended)
            else:
                self._loop.requests.submit(lambda: _raise(error)).add_done_callback(ended)

        def ended(finished: "Future[None]") -> None:
            self._loop.requests.submit(lambda: self._active.pop(connector, None))
            _pass_on(finished, done)

        self._thread.submit(lambda: self._fence(connector, configs, before)).add_done_callback(fenced)
        return done

    def _write_count(self, connector: str, count: int) -> None:
        self._loop.write_as_leader(
            f"writing a task count record for connector {connector} to the config topic",
            lambda: self._topic.put_task_count(connector, count),
        )


def _pass_on(source: "Future[None]", target: "Future[None]") -> None:
    error = source.exception()
    if error is None:
        target.set_result(None)
    else:
        target.set_exception(error)


def _raise(error: BaseException) -> None:
    raise error
