"""How an idempotent producer without transactions gets its producer id."""

from collections.abc import Callable
from typing import Final

from pkafka.clients.cluster import Cluster
from pkafka.clients.config import ProducerConfig
from pkafka.clients.connection import Pending
from pkafka.clients.errors import ClientError
from pkafka.clients.producer.backoff import backoff_ms
from pkafka.clients.producer.idempotence import Idempotence
from pkafka.errors import ApiError, ErrorCode
from pkafka.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

_NO_ID_EVER: Final = frozenset({ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.UNSUPPORTED_VERSION})


class ProducerIdLookup:
    """Asks a broker for a producer id whenever the idempotence has none; of the sender thread.

    Args:
        idempotence: takes the id.
        abort: fails all that waits, when the brokers give no id and asking again does not help.
    """

    def __init__(
        self,
        cluster: Cluster,
        config: ProducerConfig,
        idempotence: Idempotence,
        abort: Callable[[Exception], None],
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._idempotence = idempotence
        self._abort = abort
        self._is_pending = False
        self._not_before_ms = 0
        self._failures = 0

    def is_there(self, now_ms: int) -> bool:
        """Whether batches may go; asks a broker for a producer id when there is none."""
        self._idempotence.refresh()
        if self._idempotence.producer is not None:
            return True
        if self._is_pending or now_ms < self._not_before_ms or not self._cluster.view.brokers:
            return False
        address = self._cluster.any_address()
        if not self._cluster.network.is_ready(address):
            return False
        self._is_pending = True
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1)
        self._cluster.network.send(address, request, on_done=self._on_done)
        return False

    def _on_done(self, pending: Pending) -> None:
        self._is_pending = False
        response = pending.response
        error: ApiError | ClientError | None = pending.error
        if isinstance(response, InitProducerIdResponse):
            if not response.error_code:
                self._failures = 0
                self._idempotence.adopt(response.producer_id, response.producer_epoch)
                return
            error = ApiError(ErrorCode(response.error_code))
        self._not_before_ms = self._cluster.clock.monotonic_ms() + backoff_ms(self._config, self._failures)
        self._failures += 1
        if error is not None and (not error.retriable or getattr(error, "code", None) in _NO_ID_EVER):
            self._abort(error)
