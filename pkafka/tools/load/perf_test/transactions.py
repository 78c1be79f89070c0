"""The transactions of one producer of a load test: where they begin and end, and which of them are aborted."""

import time
from fractions import Fraction

from pkafka.clients.errors import ClientTimeoutError
from pkafka.clients.producer import Producer
from pkafka.errors import PkafkaError
from pkafka.tools.load.perf_test.measuring import Recorder
from pkafka.tools.load.perf_test.plan import Plan


class Transactions:
    """Begins a transaction with the first record that is sent outside of one, and ends it when it has all its records.

    Args:
        plan: of a test with transactions.
        producer: with a transactional id.
    """

    def __init__(self, plan: Plan, producer: Producer) -> None:
        assert plan.transaction_records is not None
        self._size = plan.transaction_records
        self._abort_share = Fraction(plan.abort_share).limit_denominator(1_000_000)
        self._producer = producer
        self._records = 0
        """In the transaction that is open."""

        self._ended = 0

    def room(self, records: int) -> int:
        """How many of so many records the open transaction, or the next one, takes; it begins here."""
        if not self._records:
            self._producer.begin_transaction()
        return min(records, self._size - self._records)

    def sent(self, records: int, recorder: Recorder) -> None:
        """Records were handed over; the transaction ends when it has all of them."""
        self._records += records
        if self._records >= self._size:
            self.end(recorder)

    def end(self, recorder: Recorder) -> None:
        """End the open transaction, if there is one.

        Raises:
            PkafkaError: the producer cannot go on.
        """
        if not self._records:
            return
        records, self._records = self._records, 0
        is_committed = not is_aborted(self._ended, self._abort_share)
        self._ended += 1
        began_ns = time.monotonic_ns()
        if is_committed:
            is_committed = self._commit(recorder)
        else:
            # What is aborted before it is sent would be no load.
            self._producer.flush()
            self._producer.abort_transaction()
        now_ns = time.monotonic_ns()
        recorder.ended(now_ns, (now_ns - began_ns) // 1000, records, is_committed=is_committed)

    def _commit(self, recorder: Recorder) -> bool:
        try:
            self._producer.commit_transaction()
        except ClientTimeoutError:
            raise  # it may be committed yet
        except PkafkaError as error:
            recorder.failed(time.monotonic_ns(), 0, error)
            self._producer.abort_transaction()
            return False
        return True


def is_aborted(number: int, share: Fraction) -> bool:
    """Whether the transaction with this number, from 0 on, is to be aborted: evenly spread, the same in every run."""
    return (number + 1) * share // 1 > number * share // 1
