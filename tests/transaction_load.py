"""A producer that commits and aborts small transactions while a test does things to the brokers, and the reckoning."""

import threading
import time
from collections.abc import Sequence
from typing import Final, Self

from pkafka.clients.admin.coordinators import CoordinatorType, find_coordinators
from pkafka.clients.consumer import Consumer
from pkafka.clients.errors import ClientError
from pkafka.clients.producer import Producer
from pkafka.errors import ApiError
from pkafka.model import TopicPartition
from pkafka.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from tests.cluster import Cluster
from tests.talk import wait_for

_ABORTED_EACH: Final = 4
"""Every so many transactions one is aborted."""


class TransactionLoad:
    """Transactions 0, 1, 2, ... of one transactional id, one record in each of some partitions, until it is left.

    It remembers which were committed and aborted; where it was told neither, the transaction may be either, but whole.

    Args:
        cluster: whose brokers get them.
        places: get one record of each transaction.
        transactional_id: of the producer, and of those after it when it was fenced.
        settings: of the producer, beside the addresses and the id.
    """

    def __init__(
        self,
        cluster: Cluster,
        places: Sequence[TopicPartition],
        transactional_id: str,
        **settings: object,
    ) -> None:
        self._cluster = cluster
        self._places = places
        self._settings = {
            "transactional.id": transactional_id,
            "transaction.timeout.ms": 10_000,
            "max.block.ms": 40_000,
            "retry.backoff.max.ms": 100,
            "linger.ms": 0,
            **settings,
        }
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.committed: list[int] = []
        self.aborted: list[int] = []
        self.open_ended: list[int] = []
        self.failures: list[str] = []
        """Why producers were given up."""
        self.defect: BaseException | None = None
        """What should never happen."""
        self.longest_gap_s = 0.0

    def __enter__(self) -> Self:
        self._thread.start()
        self.goes_on(5)
        return self

    def __exit__(self, *_error: object) -> None:
        self._ended.set()
        self._thread.join()

    def goes_on(self, count: int = 10, *, timeout_s: float = 60.0) -> None:
        """Wait until more transactions are committed than until now."""
        before = len(self.committed)
        wait_for(
            lambda: len(self.committed) >= before + count or self.defect,
            timeout_s=timeout_s,
            what=f"{count} transactions, after {self.failures[-3:]}",
        )
        assert self.defect is None, self.defect

    def _run(self) -> None:
        number = 0
        try:
            while not self._ended.is_set():
                with Producer({"bootstrap.servers": self._cluster.bootstrap, **self._settings}) as producer:
                    number = self._until_failure(producer, number)
        except BaseException as error:
            self.defect = error
            raise

    def _until_failure(self, producer: Producer, number: int) -> int:
        """Run transactions until one fails, or the end; returns the number of the next."""
        try:
            producer.init_transactions()
        except (ApiError, ClientError) as error:
            self.failures.append(f"init: {error!r}")
            return number
        last = time.monotonic()
        while not self._ended.is_set():
            outcome = self.aborted if number % _ABORTED_EACH == 0 else self.committed
            try:
                self._transact(producer, number, commit=outcome is self.committed)
            except (ApiError, ClientError) as error:
                self.failures.append(f"{number}: {error!r}")
                self.open_ended.append(number)
                return number + 1
            outcome.append(number)
            number += 1
            now = time.monotonic()
            self.longest_gap_s, last = max(self.longest_gap_s, now - last), now
        return number

    def _transact(self, producer: Producer, number: int, *, commit: bool) -> None:
        producer.begin_transaction()
        for place in self._places:
            producer.send(place.topic, b"%d" % number, partition=place.partition)
        if commit:
            producer.commit_transaction()
        else:
            producer.flush(60)
            producer.abort_transaction()

    # -- the reckoning --

    def check(self) -> None:
        """All that was committed is there once in each partition and in order, and nothing that was aborted.

        To be called after the end, when no transaction is open any more.
        """
        assert self.defect is None, self.defect
        seen = [committed_values(self._cluster, one) for one in self._places]
        for values in seen:
            assert values == sorted(set(values)), "in order, and each once"
            assert values == seen[0], "whole in all partitions, or in none"
        found = set(seen[0])
        assert set(self.committed) <= found, "all that was committed"
        assert not found & set(self.aborted), "nothing that was aborted"
        assert found <= {*self.committed, *self.open_ended}

    def wait_for_end(self, timeout_s: float = 60.0) -> None:
        """Wait until the last transaction of the id is over: its time may have to run out first."""
        name = str(self._settings["transactional.id"])
        wait_for(
            lambda: state_of(self._cluster, name) in _OVER, timeout_s=timeout_s, what=f"the end of {name}"
        )


_OVER: Final = ("Empty", "CompleteCommit", "CompleteAbort")


def state_of(cluster: Cluster, transactional_id: str) -> str:
    """The state of a transactional id as its coordinator has it; empty while none answers."""
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    with cluster.admin() as admin:
        found = find_coordinators(admin.cluster, [transactional_id], CoordinatorType.TRANSACTION)
        coordinator = found[transactional_id]
        if isinstance(coordinator, ApiError):
            return ""
        answer = admin.cluster.request(request, DescribeTransactionsResponse, to=coordinator.id)
        [state] = answer.transaction_states
        return "" if state.error_code else str(state.transaction_state)


def committed_values(cluster: Cluster, place: TopicPartition) -> list[int]:
    """Every committed value of a partition, in order."""
    keys = {
        "bootstrap.servers": cluster.bootstrap,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
    }
    with Consumer(keys) as consumer:
        consumer.assign([place])
        end = consumer.end_offsets([place])[place]
        values: list[int] = []
        while consumer.position(place) < end:
            values += [int(one.value or b"-1") for one in consumer.poll(100)]
    return values
