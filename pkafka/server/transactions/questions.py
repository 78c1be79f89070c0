"""Asks the coordinators of transactional ids, wherever they are, whether transactions write to partitions (KIP-890).

The coordinator may be this worker, another worker of this broker (a frame) or another broker, of pkafka or of Apache
Kafka (AddPartitionsToTxn, version 4 or later, with verify_only). Questions about one transaction that come in one turn,
or while others are in hand, go together.
"""

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from pkafka.errors import ErrorCode, PkafkaError
from pkafka.model import NO_TOPIC_ID, TRANSACTION_STATE_TOPIC, BrokerId, LeaderEpoch, Millis, TopicId
from pkafka.server.cluster.metadata import MetadataCache
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.ipc.peer import Handler, Payload, Peer, PeerLate, Reply
from pkafka.server.metrics.latency import Histogram
from pkafka.server.replicas.delayed import Timer
from pkafka.server.replicas.partitions import Partitions
from pkafka.server.serving.peers import Peers
from pkafka.server.transactions.coordinator import TransactionCoordinator
from pkafka.server.transactions.errors import told_to_leader
from pkafka.server.transactions.question_links import Answered, Codes, QuestionLinks, Row
from pkafka.server.transactions.transaction import PartitionKey, Producer

_VERIFY: Final = "verify_transactions"
"""Between workers. Payload: rows of :data:`Row`; the answer: for each row a code for each partition."""

_NS_PER_MS: Final = 1_000_000

Vouched: TypeAlias = tuple[LeaderEpoch, LeaderEpoch, TopicId]
"""A coordinator's word that a transaction writes to a partition, given by the worker that sends the owner the records.
The epoch under which it coordinates; the leader epoch of the partition and the id of its topic, as it knows them."""


class _Question:
    """Asks about one transaction."""

    __slots__ = ("producer", "since_ms", "transactional_id", "waiting")

    def __init__(self, transactional_id: str, producer: Producer, now_ms: Millis) -> None:
        self.transactional_id = transactional_id
        self.producer = producer
        self.since_ms = now_ms
        self.waiting: dict[PartitionKey, list[Callable[[ErrorCode], None]]] = {}
        """Those that want to know, by partition."""

    @property
    def row(self) -> Row:
        """The question as it is sent."""
        return self.transactional_id, *self.producer, tuple(self.waiting)


class _Line:
    """The way to one coordinator elsewhere: one request is in hand at a time, with all that has come until then.

    Args:
        send: sends rows.
        answered: told of each question and its codes.
        timer: of the worker.
    """

    def __init__(
        self,
        send: Callable[[Sequence[Row], Answered], None],
        answered: Callable[[_Question, Sequence[int] | ErrorCode], None],
        timer: Timer,
    ) -> None:
        self._send = send
        self._told = answered
        self._timer = timer
        self._queue: dict[tuple[str, Producer], _Question] = {}
        self._is_busy = False
        """A request is in hand, or is sent when this turn is over."""

    def put(
        self,
        transactional_id: str,
        producer: Producer,
        key: PartitionKey,
        answered: Callable[[ErrorCode], None],
    ) -> None:
        """Ask about a partition, together with what else is to be asked about the transaction."""
        question = self._queue.get((transactional_id, producer))
        if question is None:
            question = _Question(transactional_id, producer, self._timer.now_ms())
            self._queue[transactional_id, producer] = question
        question.waiting.setdefault(key, []).append(answered)
        if not self._is_busy:
            self._is_busy = True
            self._timer.in_next_turn(self._flush)

    def _flush(self) -> None:
        questions: dict[str, _Question] = {}
        for (transactional_id, _producer), question in self._queue.items():
            # Two producers of one id do not go together: brokers tell the answers apart by the id alone.
            questions.setdefault(transactional_id, question)
        for question in questions.values():
            del self._queue[question.transactional_id, question.producer]
        asked = list(questions.values())
        self._send([question.row for question in asked], partial(self._answered, asked))

    def _answered(self, asked: Sequence[_Question], answer: Codes | ErrorCode) -> None:
        for place, question in enumerate(asked):
            self._told(question, answer if isinstance(answer, ErrorCode) else answer[place])
        if self._queue:
            self._timer.in_next_turn(self._flush)
        else:
            self._is_busy = False


class CoordinatorQuestions:
    """Finds the coordinator of a transactional id and asks it. Belongs to one event loop.

    Args:
        coordinator: of this worker.
        partition_of: gives the partition of __transaction_state that an id belongs to.
        metadata: names the brokers that lead these partitions, and their addresses.
        partitions: tells which worker of this broker owns one.
        peers: the other workers.
        config: gives the present settings.
        timer: of the worker.
        spawn: runs a coroutine on the worker's loop.
    """

    def __init__(
        self,
        *,
        coordinator: TransactionCoordinator,
        partition_of: Callable[[str], int],
        metadata: MetadataCache,
        partitions: Partitions,
        peers: Peers,
        config: Callable[[], BrokerConfig],
        timer: Timer,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._coordinator = coordinator
        self._partition_of = partition_of
        self._metadata = metadata
        self._partitions = partitions
        self._peers = peers
        self._timer = timer
        self._links = QuestionLinks(metadata, partitions, config, spawn)
        self._to_workers: dict[int, _Line] = {}
        self._to_brokers: dict[BrokerId, _Line] = {}
        self.failures = 0
        """Partitions that were not verified (VerificationFailureRate)."""
        self.times: Final = Histogram()
        """How long each transaction's answer took (VerificationTimeMs)."""
        self.operations: dict[str, Handler] = {_VERIFY: self._serve}
        """What other workers may ask: about transactions that this one coordinates."""

    def ask(
        self,
        transactional_id: str,
        producer: Producer,
        key: PartitionKey,
        answered: Callable[[ErrorCode], None],
    ) -> None:
        """Ask whether a producer's transaction writes to a partition.

        Args:
            answered: called once, now or later: NONE when it does, TRANSACTION_ABORTABLE (or INVALID_TXN_STATE, by
                an older broker) when it does not; else why there is no answer.
        """
        state_partition = self._partition_of(transactional_id)
        leader = self._metadata.leader_of(TRANSACTION_STATE_TOPIC, state_partition)
        if leader == self._partitions.broker_id:
            owner = self._partitions.owner(TRANSACTION_STATE_TOPIC, state_partition)
            if owner != self._peers.index:
                self._worker(owner).put(transactional_id, producer, key, answered)
                return
            question = _Question(transactional_id, producer, self._timer.now_ms())
            question.waiting[key] = [answered]
            self._told(question, self._answer_here(question.row))
        elif leader in self._metadata.brokers:
            self._broker(leader).put(transactional_id, producer, key, answered)
        else:
            self.failures += 1
            answered(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def vouch(
        self, transactional_id: str, producer: Producer, keys: Sequence[PartitionKey]
    ) -> Sequence[Vouched] | None:
        """Confirm here, where the coordinator is this worker, what the owners of partitions would have to ask.

        Args:
            keys: partitions that other workers of this broker lead, or this one.

        Returns:
            A word for each partition, to travel with its records. None where this worker cannot say that the
            transaction writes to all of them: their owners ask then.
        """
        coordinator_epoch = self._coordinator.epoch_vouching_for(transactional_id, producer, keys)
        if coordinator_epoch is None:
            return None
        words: list[Vouched] = []
        for topic, index in keys:
            info = self._metadata.partition(topic, index)
            topic_id = self._metadata.topic_id(topic)
            if info is None or topic_id == NO_TOPIC_ID:
                return None
            words.append((coordinator_epoch, info.leader_epoch, topic_id))
        return words

    def close(self) -> None:
        """Close the connections to other brokers."""
        self._links.close()

    def _told(self, question: _Question, codes: Sequence[int] | ErrorCode) -> None:
        """Pass on what became of one question."""
        self.times.record((self._timer.now_ms() - question.since_ms) * _NS_PER_MS)
        for place, waiting in enumerate(question.waiting.values()):
            number = codes if isinstance(codes, ErrorCode) else codes[place]
            code = ErrorCode.NONE
            if number:
                code = told_to_leader(ErrorCode(number))
                self.failures += 1
            for answered in waiting:
                answered(code)

    # -- this worker --

    def _answer_here(self, row: Row) -> list[int]:
        transactional_id, producer_id, epoch, keys = row
        partitions = [(topic, index) for topic, index in keys]
        outcome = self._coordinator.verify(transactional_id, Producer(producer_id, epoch), partitions)
        if isinstance(outcome, ErrorCode):
            return [int(outcome)] * len(partitions)
        return [int(outcome[key]) for key in partitions]

    def _serve(self, _peer: Peer, rows: Payload, _blob: memoryview, _fds: list[int]) -> list[list[int]]:
        return [self._answer_here(row) for row in rows]

    # -- elsewhere --

    def _worker(self, index: int) -> _Line:
        found = self._to_workers.get(index)
        if found is None:
            found = _Line(partial(self._ask_worker, index), self._told, self._timer)
            self._to_workers[index] = found
        return found

    def _broker(self, broker: BrokerId) -> _Line:
        found = self._to_brokers.get(broker)
        if found is None:
            found = _Line(partial(self._links.ask, broker), self._told, self._timer)
            self._to_brokers[broker] = found
        return found

    def _ask_worker(self, index: int, rows: Sequence[Row], answered: Answered) -> None:
        peer = self._peers.others.get(index)
        if peer is None:
            answered(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        is_answered = False

        def replied(reply: Reply | None, error: PkafkaError | None) -> None:
            nonlocal is_answered
            if is_answered:
                return  # a worker that seemed to hang has answered after all
            is_answered = True
            if reply is not None:
                answered(reply[0])
            elif isinstance(error, PeerLate):
                answered(ErrorCode.NETWORK_EXCEPTION)
            else:
                answered(ErrorCode.COORDINATOR_NOT_AVAILABLE)

        peer.call_back(_VERIFY, rows, b"", replied)
