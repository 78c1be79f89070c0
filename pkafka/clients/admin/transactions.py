"""Transactions: list and describe transactional ids, fence their producers, and end what hangs in a partition."""

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Final

from pkafka.clients.admin.coordinators import MOVING, CoordinatorType, at_coordinators
from pkafka.clients.admin.leaders import at_leaders
from pkafka.clients.admin.results import BrokerInfo, Outcome, error_outcome, outcome_of
from pkafka.clients.admin.transaction_results import (
    AbortSpec,
    ProducerIdAndEpoch,
    TransactionDescription,
    TransactionList,
    TransactionListing,
    TransactionState,
)
from pkafka.clients.cluster import Cluster
from pkafka.clients.errors import ClientError
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition

if TYPE_CHECKING:
    from pkafka.protocol.messages import describe_transactions as describe_wire
    from pkafka.protocol.messages import list_transactions as list_wire

_LOADING: Final = frozenset({ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})
# A coordinator answers so while it aborts what the producer that is fenced had begun.
_FENCING: Final = MOVING | {ErrorCode.CONCURRENT_TRANSACTIONS}
_ANY_DURATION: Final = -1
_TIMEOUT_MIN_MS: Final = 5_000
_TIMEOUT_MAX_MS: Final = 60_000


class TransactionsAdmin:
    """Looks at transactions and ends them; a part of :class:`pkafka.clients.admin.Admin`."""

    cluster: Cluster

    def list_transactions(
        self,
        *,
        states: Collection[TransactionState] = (),
        producer_ids: Collection[int] = (),
        duration_ms: int | None = None,
        timeout_ms: int | None = None,
    ) -> TransactionList:
        """The transactional ids of all brokers, by broker and otherwise as the brokers answer (KIP-664).

        Args:
            states, producer_ids: only ids in one of these states, of one of these producers; all when left out.
            duration_ms: only ids whose transaction is older than this; an id without a transaction passes, as Kafka's
                coordinators take it for begun before all time (KIP-994).

        Raises:
            UnsupportedApiError: a broker is too old, for ``duration_ms`` maybe.
        """
        from pkafka.protocol.messages import list_transactions as wire

        request = wire.ListTransactionsRequest(
            state_filters=[each.value for each in states],
            producer_id_filters=list(producer_ids),
            duration_filter=_ANY_DURATION if duration_ms is None else duration_ms,
        )
        cluster = self.cluster
        wait_ms = cluster.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        deadline_ms = cluster.clock.monotonic_ms() + wait_ms
        left = sorted(cluster.refresh(timeout_ms=wait_ms).brokers)
        found: dict[int, list[TransactionListing]] = {}
        errors: dict[int, ApiError] = {}
        attempt = 0
        while True:
            left_ms = max(1, deadline_ms - cluster.clock.monotonic_ms())
            answers = cluster.request_each(
                dict.fromkeys(left, request), wire.ListTransactionsResponse, timeout_ms=left_ms
            )
            for node, answer in answers.items():
                outcome = _listed(answer, node)
                if isinstance(outcome, ApiError):
                    errors[node] = outcome
                else:
                    errors.pop(node, None)
                    found[node] = outcome
            left = [node for node, error in errors.items() if error.code in _LOADING]
            if not left or cluster.clock.monotonic_ms() >= deadline_ms:
                return TransactionList(tuple(each for node in sorted(found) for each in found[node]), errors)
            cluster.pause(attempt, deadline_ms)
            attempt += 1

    def describe_transactions(
        self, transactional_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, Outcome[TransactionDescription]]:
        """State, producer and partitions of transactional ids, as their coordinators know them (KIP-664).

        An id that no coordinator knows is a TRANSACTIONAL_ID_NOT_FOUND outcome.

        Raises:
            UnsupportedApiError: a broker is too old.
        """
        from pkafka.protocol.messages import describe_transactions as wire

        def ask(batch: list[str]) -> wire.DescribeTransactionsRequest:
            return wire.DescribeTransactionsRequest(transactional_ids=batch)

        def read(
            response: wire.DescribeTransactionsResponse, _batch: list[str], broker: BrokerInfo
        ) -> dict[str, Outcome[TransactionDescription]]:
            return {
                each.transactional_id: ApiError(ErrorCode(each.error_code))
                if each.error_code
                else _described(each, broker.id)
                for each in response.transaction_states
            }

        return at_coordinators(
            self.cluster,
            transactional_ids,
            wire.DescribeTransactionsResponse,
            ask,
            read,
            key_type=CoordinatorType.TRANSACTION,
            timeout_ms=timeout_ms,
        )

    def fence_producers(
        self, transactional_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, Outcome[ProducerIdAndEpoch]]:
        """Shut out the producers that use transactional ids, and abort what they have begun.

        Each id gets a new epoch, as if a new producer began to use it. An id that no coordinator knows is made. Where
        a transaction goes on, the call returns once it is aborted; while the end of one is decided but not yet in all
        partitions, the call waits, and commits or aborts nothing itself.

        As Kafka's client since 3.8 the call names its request time-out as the id's transaction time-out, which is what
        the coordinator waits for its own log (KAFKA-16047); but no less than 5 seconds, and no more than a minute, the
        time-out of producers, as brokers may refuse more.

        Returns:
            The identity that the id has now; a producer that uses the id in future gets one behind it.
        """
        from pkafka.protocol.messages import init_producer_id as wire

        cluster = self.cluster
        wait_ms = cluster.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        deadline_ms = cluster.clock.monotonic_ms() + wait_ms
        transaction_timeout_ms = max(_TIMEOUT_MIN_MS, min(cluster.config.request_timeout_ms, _TIMEOUT_MAX_MS))

        def ask(batch: list[str]) -> wire.InitProducerIdRequest:
            (transactional_id,) = batch
            return wire.InitProducerIdRequest(
                transactional_id=transactional_id, transaction_timeout_ms=transaction_timeout_ms
            )

        def read(
            response: wire.InitProducerIdResponse, batch: list[str], _broker: BrokerInfo
        ) -> dict[str, Outcome[ProducerIdAndEpoch]]:
            given = ProducerIdAndEpoch(response.producer_id, response.producer_epoch)
            return dict.fromkeys(batch, outcome_of(response.error_code, None, given))

        outcomes: dict[str, Outcome[ProducerIdAndEpoch]] = {}
        for transactional_id in transactional_ids:
            outcomes |= at_coordinators(
                cluster,
                [transactional_id],
                wire.InitProducerIdResponse,
                ask,
                read,
                key_type=CoordinatorType.TRANSACTION,
                passing=_FENCING,
                timeout_ms=max(1, deadline_ms - cluster.clock.monotonic_ms()),
            )
        return outcomes

    def abort_transaction(self, spec: AbortSpec, *, timeout_ms: int | None = None) -> Outcome[None]:
        """End a producer's transaction in one partition with a marker; its coordinator is not asked (KIP-664).

        This is for transactions that hang: those that no coordinator knows any more. The marker ends the part in this
        partition alone, so on a transaction that is alive it would tear the transaction apart.

        Returns:
            None, or why the leader refuses: INVALID_PRODUCER_EPOCH where the producer has a higher epoch by now,
            TRANSACTION_COORDINATOR_FENCED where a coordinator with a higher epoch wrote its last marker.
        """
        from pkafka.protocol.messages import write_txn_markers as wire

        topic, index = spec.partition

        def ask(_group: list[TopicPartition]) -> wire.WriteTxnMarkersRequest:
            marker = wire.WritableTxnMarker(
                producer_id=spec.producer_id,
                producer_epoch=spec.producer_epoch,
                transaction_result=False,
                topics=[wire.WritableTxnMarkerTopic(name=topic, partition_indexes=[index])],
                coordinator_epoch=spec.coordinator_epoch,
            )
            return wire.WriteTxnMarkersRequest(markers=[marker])

        def read(response: wire.WriteTxnMarkersResponse) -> dict[TopicPartition, Outcome[None]]:
            return {
                TopicPartition(each.name, one.partition_index): outcome_of(one.error_code, None, None)
                for marker in response.markers
                for each in marker.topics
                for one in each.partitions
            }

        found = at_leaders(
            self.cluster, [spec.partition], wire.WriteTxnMarkersResponse, ask, read, timeout_ms=timeout_ms
        )
        return found[spec.partition]


def _listed(
    answer: "list_wire.ListTransactionsResponse | ClientError", node: int
) -> Outcome[list[TransactionListing]]:
    if isinstance(answer, ClientError):
        return error_outcome(answer)
    if answer.error_code:
        return ApiError(ErrorCode(answer.error_code))
    return [
        TransactionListing(
            each.transactional_id, node, each.producer_id, TransactionState.parse(each.transaction_state)
        )
        for each in answer.transaction_states
    ]


def _described(state: "describe_wire.TransactionState", coordinator: int) -> TransactionDescription:
    started_ms = state.transaction_start_time_ms
    return TransactionDescription(
        coordinator=coordinator,
        state=TransactionState.parse(state.transaction_state),
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        timeout_ms=state.transaction_timeout_ms,
        start_time_ms=None if started_ms < 0 else started_ms,
        partitions=tuple(
            TopicPartition(each.topic, index) for each in state.topics for index in each.partitions
        ),
    )
