"""Where a source task wants its transactions to end (``TransactionContext``, KIP-618). Any thread may call it."""

import threading

from pkafka.connect.data.records import SourceRecord


class TransactionMarks:
    """Keeps what a task has asked for until the records that it is about are on their way."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._commits: list[SourceRecord | None] = []
        self._aborts: list[SourceRecord | None] = []

    def commit_transaction(self, record: SourceRecord | None = None) -> None:
        """End the transaction behind a record, or behind those of the next ``poll`` that returns; None: the latter."""
        with self._lock:
            self._commits.append(record)

    def abort_transaction(self, record: SourceRecord | None = None) -> None:
        """Give the transaction up behind a record; else as :meth:`commit_transaction`.

        Its records are dropped, and their offsets committed all the same, so that they are not read again.
        """
        with self._lock:
            self._aborts.append(record)

    def takes_commit(self, record: SourceRecord | None) -> bool:
        """Whether to commit behind a record, or behind a poll; it is not said again."""
        return self._takes(self._commits, record)

    def takes_abort(self, record: SourceRecord | None) -> bool:
        """Whether to abort there."""
        return self._takes(self._aborts, record)

    def _takes(self, marks: list[SourceRecord | None], record: SourceRecord | None) -> bool:
        with self._lock:
            for index, each in enumerate(marks):
                if each is record:
                    del marks[index]
                    return True
        return False
