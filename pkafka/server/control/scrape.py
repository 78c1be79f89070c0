"""The page with the metrics of this broker: what the other processes count, and what the control process knows."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pkafka.errors import ConfigError, PkafkaError
from pkafka.server.config.metrics_access import metrics_access
from pkafka.server.control.siblings import Siblings
from pkafka.server.control.this_broker import ThisBroker
from pkafka.server.controller.context import DeletionCounts
from pkafka.server.handlers import CONTROL_APIS, FRAME_APIS, MESSAGE_APIS
from pkafka.server.ipc import words

if TYPE_CHECKING:
    from pkafka.server.metrics.page import BrokerFacts

log = logging.getLogger(__name__)

_DAY_S: Final = 86_400
_SCRAPE_MAX_S: Final = 5.0
_METRICS_OF_A_WORKER_MAX_S: Final = 2.0
"""The page leaves a worker out that does not answer within this time: operators need the page most when a worker
hangs."""


class Scrape:
    """Collects what the page shows.

    Args:
        broker: this broker.
        siblings: the processes that count.
    """

    def __init__(self, broker: ThisBroker, siblings: Siblings) -> None:
        self._broker = broker
        self._siblings = siblings
        self._loop = asyncio.get_running_loop()
        self._started_ms = broker.clock.now_ms()

    def open_page(self) -> None:
        """Serve the page, when the settings name a port for it."""
        config = self._broker.config
        if config.metrics_port < 0:
            return
        from pkafka.server.metrics.access import PageAccess
        from pkafka.server.metrics.server import MetricsServer

        try:
            access = PageAccess(metrics_access(config))
            page = MetricsServer(config.metrics_host, config.metrics_port, self._collect, access)
        except (OSError, ConfigError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            log.error("No metrics page on port %d: %s", config.metrics_port, reason)
            return
        scheme = "https" if access.is_encrypted else "http"
        log.info("Metrics on %s://%s:%d/metrics", scheme, config.metrics_host, page.port)

    def _collect(self) -> "tuple[Sequence[Mapping[str, Any]], BrokerFacts]":
        """Everything that the page shows; called on the page's thread."""
        return asyncio.run_coroutine_threadsafe(self._ask(), self._loop).result(_SCRAPE_MAX_S)

    async def _ask(self) -> "tuple[Sequence[Mapping[str, Any]], BrokerFacts]":
        from pkafka.server.metrics.page import BrokerFacts

        calls = [
            asyncio.wait_for(peer.call(words.METRICS), _METRICS_OF_A_WORKER_MAX_S)
            for peer in self._siblings.workers
        ]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        cleaner = await self._ask_cleaner()
        deletion = await self._count_deletions()
        broker = self._broker
        partitions = [one for topic in broker.metadata.topics.values() for one in topic.partitions.values()]
        facts = BrokerFacts(
            active_controller=broker.controller.is_active,
            topics=len(broker.metadata.topics),
            partitions=len(partitions),
            offline_partitions=sum(one.leader < 0 for one in partitions),
            log_cleaner=cleaner,
            preferred_imbalance=sum(one.replicas[:1] != (one.leader,) for one in partitions),
            offline_replicas=sum(broker.broker_id in one.offline_replicas for one in partitions),
            live_brokers=len(broker.metadata.brokers),
            cluster_id=broker.cluster_id,
            broker_id=broker.broker_id,
            started_ms=self._started_ms,
            deletion=deletion.by_name() if deletion is not None else {},
            controller_queue=broker.controller.queue_size,
            controller_times=broker.controller.stats.by_name(),
            unclean_elections=broker.controller.stats.unclean_elections,
            served_apis={*FRAME_APIS, *MESSAGE_APIS, *CONTROL_APIS},
            certificate_days={
                listener: end.timestamp() / _DAY_S - broker.clock.now_ms() / 1000 / _DAY_S
                for listener, end in broker.encryption.expiries().items()
            },
            denials=dict(broker.authorizer.denials) if broker.authorizer is not None else {},
        )
        return [answer[0] for answer in answers if not isinstance(answer, BaseException)], facts

    async def _count_deletions(self) -> DeletionCounts | None:
        """Return the counts; None when the controller has not answered in time."""
        controller = self._broker.controller
        if not controller.is_active:
            return DeletionCounts()
        counted = controller.run(controller.context.deletion_counts)
        try:
            return await asyncio.wait_for(counted, _METRICS_OF_A_WORKER_MAX_S)
        except (PkafkaError, TimeoutError):
            return None

    async def _ask_cleaner(self) -> Mapping[str, Any]:
        if self._siblings.cleaner is None:
            return {}
        asked = self._siblings.cleaner.call(words.METRICS)
        try:
            metrics: Mapping[str, Any] = (await asyncio.wait_for(asked, _METRICS_OF_A_WORKER_MAX_S))[0]
        except (PkafkaError, TimeoutError):
            return {}
        return metrics
