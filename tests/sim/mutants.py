"""Ways to break the real code, each of which the simulation has to find.

A simulation that finds nothing proves something only if it would find what is there.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final
from unittest.mock import patch

from pkafka.errors import ErrorCode
from pkafka.protocol.messages.leader_and_isr import LeaderAndIsrPartitionState
from pkafka.server.controller import election, office
from pkafka.server.controller.context import Leadership as Decided
from pkafka.server.controller.election import Elected
from pkafka.server.controller.isr_requests import WantedIsr
from pkafka.server.controller.state_store import StateStore
from pkafka.server.handlers import fetch as fetch_handler
from pkafka.server.partition import Partition
from pkafka.server.partitions import Partitions
from pkafka.server.replication import fetcher
from pkafka.server.replication.leadership import IsrProposal, Leadership
from pkafka.storage.log import Log


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


def _cut_at_high_watermark(log: Log, _epoch: int, _end_offset: int) -> int:
    return min(log.high_watermark, log.log_end_offset)


def _obey_old_epochs(
    self: Partitions, topic: str, topic_id: bytes, state: LeaderAndIsrPartitionState
) -> ErrorCode:
    partition = self.hosted.get((topic, state.partition_index))
    if partition is not None:
        partition.leader_epoch = min(partition.leader_epoch, state.leader_epoch)
    return _become(self, topic, topic_id, state)


_become = Partitions._become


def _unfenced(self: StateStore, transactions: Any) -> Any:
    return self._store.multi_many(transactions) if transactions else []


def _forget_producers(self: Log, end_offset: int) -> None:
    self.producers.clear()


MUTANTS: Final[Mapping[str, tuple[Any, str, Any]]] = {
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
    "leaders do not say where logs part": (fetch_handler, "divergence", lambda *_: None),
    "followers cut at their high watermark": (fetcher, "truncation_offset", _cut_at_high_watermark),
    "fetches of any leader epoch are served": (Partition, "check_epoch", lambda *_: None),
    "LeaderAndIsr of older epochs are obeyed": (Partitions, "_become", _obey_old_epochs),
    "a truncated log forgets what producers wrote": (Log, "_rebuild_producers", _forget_producers),
}
"""What is wrong: where, and what stands there instead."""


@contextmanager
def mutant(name: str) -> Iterator[None]:
    """Break the real code while this lasts."""
    owner, attribute, replacement = MUTANTS[name]
    with patch.object(owner, attribute, replacement):
        yield
