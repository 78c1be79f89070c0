"""Ways to break the real code, each of which the simulation has to find.

A simulation that finds nothing proves something only if it would find what is there.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias
from unittest.mock import patch

from pkafka.errors import ErrorCode
from pkafka.protocol.messages.leader_and_isr import LeaderAndIsrPartitionState
from pkafka.server.control import session
from pkafka.server.control.apis import ControlRequestContext
from pkafka.server.control.local_channels import LocalChannels
from pkafka.server.controller import election, office
from pkafka.server.controller.context import Leadership as Decided
from pkafka.server.controller.election import Elected
from pkafka.server.controller.isr_requests import WantedIsr
from pkafka.server.controller.office import Office
from pkafka.server.controller.state_store import StateStore
from pkafka.server.coordinator.topic_log import TopicLog
from pkafka.server.groups.coordinator import GroupCoordinator
from pkafka.server.groups.group import Group
from pkafka.server.replicas import reading
from pkafka.server.replicas.appending import Appending
from pkafka.server.replicas.decisions import Decisions
from pkafka.server.replicas.leadership import IsrProposal, Leadership
from pkafka.server.replicas.partition import Partition
from pkafka.server.replication import fetcher
from pkafka.server.transactions.coordinator import TransactionCoordinator
from pkafka.server.transactions.incarnations import Incarnations
from pkafka.server.transactions.markers import MarkerSender
from pkafka.server.transactions.transaction import Decision, Transaction
from pkafka.server.transactions.verification import Verifier
from pkafka.storage import producer_history, recovery
from pkafka.storage.log import Log
from pkafka.storage.log_values import AppendOrigin
from pkafka.storage.producer_history import ProducerHistory
from pkafka.storage.producer_rebuild import ProducerSnapshots
from pkafka.storage.producer_state import ProducerEntry, Producers


def _elect_anybody(
    assignment: tuple[int, ...],
    isr: tuple[int, ...],
    online: Any,
    *,
    unclean_allowed: bool,
) -> Elected | None:
    live = [broker for broker in assignment if broker in online]
    return Elected(live[-1], (live[-1],)) if live else None


def _accept_any_version(wanted: WantedIsr, now: Decided, live_brokers: Any, *, version: int) -> ErrorCode:
    return ErrorCode.NONE if live_brokers >= set(wanted.isr) else ErrorCode.INELIGIBLE_REPLICA


def _smallest_isr(self: Leadership) -> tuple[int, ...]:
    return self.isr if self._proposed is None else self._proposed.isr


def _acknowledge_at_once(self: Leadership, required: int, **_: Any) -> ErrorCode:
    return ErrorCode.NONE


def _commit_all(self: Leadership, *, log_end: int, **_: Any) -> int:
    return log_end


def _let_anybody_join(self: Leadership, broker_id: int, **_: Any) -> IsrProposal | None:
    if self._proposed is not None or broker_id not in self._followers or broker_id in self.isr:
        return None
    return self._propose((*self.isr, broker_id))


def _cut_where_logs_part(log: Log, _epoch: int, _end_offset: int) -> int:
    return min(log.high_watermark, log.log_end_offset)


def _cut_at_high_watermark(self: Partition, state: LeaderAndIsrPartitionState) -> None:
    _follow(self, state)
    self.log.truncate_to(min(self.log.high_watermark, self.log.log_end_offset))


_follow = Partition.follow


def _obey_old_epochs(
    self: Decisions,
    topic: str,
    topic_id: bytes,
    state: LeaderAndIsrPartitionState,
    proposed: IsrProposal | None,
) -> ErrorCode:
    partition = self.partitions.hosted.get((topic, state.partition_index))
    if partition is not None:
        partition.leader_epoch = min(partition.leader_epoch, state.leader_epoch)
    return _become(self, topic, topic_id, state, proposed)


_become = Decisions._become


def _unfenced(self: StateStore, transactions: Any) -> Any:
    return self._store.multi_many(transactions) if transactions else []


def _forget_producers(self: ProducerHistory, _log_start_offset: int, end_offset: int, *_: Any) -> None:
    self._producers.clear()
    self._forgotten_below = end_offset


def _begin_without_producers(producers: Producers, *_: Any, **__: Any) -> None:
    producers.clear()


def _write_down_nobody(self: ProducerSnapshots, producers: Producers, offset: int, *, durable: bool) -> None:
    _take(self, Producers(), offset, durable=durable)


_take = ProducerSnapshots.take


async def _obey_any_controller(self: Decisions, request: Any, proposed: Any) -> Any:
    self._controller_epoch = min(self._controller_epoch, request.controller_epoch)
    return await _leader_and_isr(self, request, proposed)


_leader_and_isr = Decisions._leader_and_isr


def _hear_former_lives(self: Office, broker: int, _broker_epoch: int, wanted: Any, *, version: int) -> Any:
    return _alter_isrs(self, broker, self._context.broker_epochs.get(broker, -1), wanted, version=version)


_alter_isrs = Office.alter_isrs


async def _wait_for_nothing(self: TopicLog, _partition: int) -> None:
    return


def _session_of_any_boot(path: Path) -> int | None:
    return int(path.read_text(encoding="ascii").split()[0], 16) if path.exists() else None


def _append_as_client(self: Appending, *args: Any, **kwargs: Any) -> Any:
    return _append(self, *args, **{**kwargs, "origin": AppendOrigin.CLIENT})


_append = Appending.append


def _read_everything(self: Log, offset: int) -> int:
    reached = _set_high_watermark(self, offset)
    self.last_stable_offset = self.high_watermark
    return reached


_set_high_watermark = Log.set_high_watermark


def _complete_later(self: GroupCoordinator, partition: int, producer_id: int, *, is_commit: bool) -> None:
    call = partial(_complete_offsets, self, partition, producer_id, is_commit=is_commit)
    self.timer.after(_A_SECOND_MS, call)


_complete_offsets = GroupCoordinator.complete_transaction
_A_SECOND_MS: Final = 1_000


def _fence_without_epoch(self: Transaction, now_ms: int) -> Decision:
    self.is_fenced = True
    return _fence(self, now_ms)


_fence = Transaction.fence


def _complete_before_markers(
    self: MarkerSender, _transactional_id: str, marker: Any, partitions: Any, paid: Any
) -> Any:
    self._timer.after(0, paid)
    return _owe(self, _transactional_id, marker, partitions, lambda: None)


_owe = MarkerSender.owe


def _answer_before_decision(self: TransactionCoordinator, entry: Any, facts: Any, done: Any) -> None:
    done(ErrorCode.NONE)
    _decide(self, entry, facts, lambda _error: None)


_decide = TransactionCoordinator._decide


Change: TypeAlias = tuple[Any, str, Any]
"""Where, and what stands there instead."""

MUTANTS: Final[Mapping[str, Change | list[Change]]] = {
    "a leader is elected that is not in the ISR": (
        election,
        "elect_for_offline_partition",
        _elect_anybody,
    ),
    "the controller takes proposals of any partition epoch": (office, "refusal", _accept_any_version),
    "the controller writes although its epoch is over": (StateStore, "_fenced", _unfenced),
    "an ISR that shrinks counts before the controller agrees": (
        Leadership,
        "maximal_isr",
        property(_smallest_isr),
    ),
    "producers are answered before their records are replicated": (
        Leadership,
        "acknowledges",
        _acknowledge_at_once,
    ),
    "the high watermark is the leader's end": (Leadership, "high_watermark", _commit_all),
    "followers join the ISR before they have caught up": (Leadership, "expansion", _let_anybody_join),
    "leaders do not say where logs part": (reading, "divergence", lambda *_: None),
    "followers cut at their high watermark": (Partition, "follow", _cut_at_high_watermark),
    "who was away when a replica moved keeps it": (Decisions, "moved_away", lambda *_: []),
    "a truncated log forgets what producers wrote": (ProducerHistory, "rebuild", _forget_producers),
    "a log that was not closed forgets what producers wrote": (recovery, "rebuild", _begin_without_producers),
    "a log that was opened or cut knows the last batch of a producer alone": (
        producer_history,
        "remember_resends",
        lambda *_: None,
    ),
    "snapshots of producers have nobody in them": (ProducerSnapshots, "take", _write_down_nobody),
    "followers do not note what producers wrote": (producer_history, "replay", lambda *_: None),
    "nobody looks at sequences but at those of resends": (ProducerEntry, "check", lambda *_: None),
    "nobody asks for min.insync.replicas": (Leadership, "in_sync_min", lambda *_: 1),
    "brokers obey controllers of older epochs": [
        (Decisions, "_leader_and_isr", _obey_any_controller),
        (LocalChannels, "_check_epoch", lambda *_: None),
    ],
    "a machine that was started anew takes its place back at once": [
        (session, "read_session", _session_of_any_boot),
        (session, "may_lack_records", lambda _: False),
    ],
    "a machine that was started anew waits for nothing when its session is over": (
        session,
        "may_lack_records",
        lambda _: False,
    ),
    "a machine that was started anew is back before anybody has seen it away": (session, "_ABSENCE_S", 0.0),
    "a worker does not ask again for the ISRs that the one before it proposed": (
        LocalChannels,
        "_open_proposals",
        lambda *_: [],
    ),
    "groups are coordinated before what was read of them is committed": (
        TopicLog,
        "all_committed",
        _wait_for_nothing,
    ),
    "readers of committed records read up to the high watermark": (
        Log,
        "set_high_watermark",
        _read_everything,
    ),
    "markers are answered before the offsets of groups count": (
        GroupCoordinator,
        "complete_transaction",
        _complete_later,
    ),
    "transactions are over before their markers are written": (
        MarkerSender,
        "owe",
        _complete_before_markers,
    ),
    "a fence leaves the epoch as it is": (Transaction, "fence", _fence_without_epoch),
    "fenced producers may go on": (Transaction, "_refusal", lambda *_: ErrorCode.NONE),
    "offsets in transactions have the rules of clients' records": (Appending, "append", _append_as_client),
    "producers hear of a decision before it is committed": (
        TransactionCoordinator,
        "_decide",
        _answer_before_decision,
    ),
    "records of transactions are not verified": (Verifier, "is_needed", lambda *_: False),
    "groups take commits of any generation": (Group, "check_commit", lambda *_, **__: ErrorCode.NONE),
}
"""What is wrong."""

FAULTS: Final[Mapping[str, tuple[str, ...]]] = {
    "producers hear of a decision before it is committed": ("isolate", "kill"),
    "the controller writes although its epoch is over": ("unseat", "elect", "move", "kill"),
    "who was away when a replica moved keeps it": ("move", "kill", "freeze"),
    "a worker does not ask again for the ISRs that the one before it proposed": ("kill worker", "isolate"),
    "groups are coordinated before what was read of them is committed": ("kill worker", "isolate"),
    "a machine that was started anew takes its place back at once": ("power",),
    "a machine that was started anew waits for nothing when its session is over": ("power",),
    "a machine that was started anew is back before anybody has seen it away": ("power",),
}
"""The only faults, where those that show it come rarely among all."""

UNSEEN: Final[Mapping[str, Change | list[Change]]] = {
    "markers of earlier connections are taken": (Incarnations, "is_current", lambda *_: True),
    "fetches of any leader epoch are served": (Partition, "check_epoch", lambda *_: None),
    "LeaderAndIsr of older epochs are obeyed": (Decisions, "_become", _obey_old_epochs),
    "the controller takes proposals of brokers' former lives": (Office, "alter_isrs", _hear_former_lives),
    "brokers obey what was meant for their former lives": (
        ControlRequestContext,
        "is_stale",
        lambda *_: False,
    ),
    "followers whose log parts from their leader's cut at their high watermark": (
        fetcher,
        "truncation_offset",
        _cut_where_logs_part,
    ),
}
"""What is not found: something else stands behind it, or it comes too rarely (docs/simulation.md says which)."""


@contextmanager
def mutant(name: str) -> Iterator[None]:
    """Break the real code while this lasts."""
    changes = {**MUTANTS, **UNSEEN}[name]
    with ExitStack() as stack:
        for owner, attribute, replacement in [changes] if isinstance(changes, tuple) else changes:
            stack.enter_context(patch.object(owner, attribute, replacement))
        yield
