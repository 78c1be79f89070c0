"""The ISRs that leaders of this worker propose to the controller (AlterPartition), and its answers.

As in Kafka all proposals that wait go in one request, and the next request follows the answer: a broker that falls
behind leaves a thousand ISRs at once.
"""

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from pkafka.errors import ApiError, ErrorCode
from pkafka.server.ipc import words
from pkafka.server.ipc.words import IsrAnswer
from pkafka.server.replicas.leadership import IsrProposal, Verdict

if TYPE_CHECKING:
    from pkafka.server.processes.worker import Worker
    from pkafka.server.replicas.partition import Partition, PartitionKey

log = logging.getLogger(__name__)

_RETRY_PAUSE_S: Final = 0.05


class IsrChanges:
    """Sends the proposals of a worker's leaders, and takes the answers.

    Args:
        worker: the owner of the partitions.
    """

    def __init__(self, worker: "Worker") -> None:
        self._worker = worker
        self._waiting: dict[PartitionKey, tuple[Partition, IsrProposal]] = {}
        self._some = asyncio.Event()
        self.expands = 0
        self.shrinks = 0
        self.failed = 0

    def counters(self) -> dict[str, int]:
        """How often ISRs changed, under the names of Kafka's meters."""
        return {
            "IsrShrinks": self.shrinks,
            "IsrExpands": self.expands,
            "FailedIsrUpdates": self.failed,
        }

    def propose(self, partition: "Partition", proposal: IsrProposal) -> None:
        """Ask the controller for another ISR; returns at once."""
        grows = len(proposal.isr) > len(partition.isr)
        log.info(
            "%s ISR of %s-%d from %s to %s",
            "Expanding" if grows else "Shrinking",
            *partition.key,
            partition.isr,
            list(proposal.isr),
        )
        self._waiting[partition.key] = partition, proposal
        self._some.set()

    async def send_for_ever(self) -> None:
        """Send what is proposed, until the worker ends."""
        while True:
            await self._some.wait()
            self._some.clear()
            asked, self._waiting = self._waiting, {}
            again = await self._send([one for one in asked.values() if _counts(*one)])
            if again:
                for partition, proposal in again:
                    self._waiting.setdefault(partition.key, (partition, proposal))
                self._some.set()
                await asyncio.sleep(_RETRY_PAUSE_S)

    async def shrink_for_ever(self) -> None:
        """Look now and then for followers that have fallen behind, until the worker ends."""
        while True:
            await asyncio.sleep(self._worker.config.replica_lag_time_max_ms / 2000)
            for partition in list(self._worker.partitions.led.values()):
                proposal = partition.isr_without_laggards()
                if proposal is not None:
                    self.propose(partition, proposal)

    async def _send(
        self, asked: "list[tuple[Partition, IsrProposal]]"
    ) -> "list[tuple[Partition, IsrProposal]]":
        if not asked:
            return []
        rows = [partition.as_row(proposal) for partition, proposal in asked]
        try:
            answers = await self._worker.control_line.ask(words.ALTER_PARTITION, rows)
        except ApiError as error:
            answers = [[error.code]] * len(rows)
        again = []
        for (partition, proposal), answer in zip(asked, answers, strict=True):
            if self._took(partition, proposal, IsrAnswer(*answer)) is Verdict.AGAIN:
                again.append((partition, proposal))
        return again

    def _took(self, partition: "Partition", proposal: IsrProposal, answer: IsrAnswer) -> Verdict:
        leadership = partition.leadership
        if leadership is None or not _counts(partition, proposal):
            return Verdict.WAIT  # it must not end one that was made since
        code = ErrorCode(answer.code)
        if code is not ErrorCode.NONE:
            verdict = leadership.answered(proposal, code)
            if verdict is not Verdict.AGAIN:
                self.failed += 1
                log.info("The controller did not change the ISR of %s-%d: %s", *partition.key, code.name)
                self._worker.progress.let_read(
                    partition
                )  # records do not wait for a follower that may not join
            return verdict
        _, leader_epoch, isr, partition_epoch = answer
        before = len(partition.isr)
        verdict = partition.isr_decided([*isr], leader_epoch, partition_epoch)
        if verdict is Verdict.DONE:
            self.expands += len(isr) > before
            self.shrinks += len(isr) < before
            self._worker.progress.let_read(partition)
        return verdict


def _counts(partition: "Partition", proposal: IsrProposal) -> bool:
    """Whether the controller has not decided otherwise since: carried out then, the leader would not know of it."""
    return partition.leadership is not None and partition.leadership.proposed is proposal
