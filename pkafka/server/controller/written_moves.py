"""/admin/reassign_partitions: moves that tools from before Kafka 2.4 ask for by writing them down.

Each stands there until its partition has arrived, was refused or was asked to go elsewhere by the API; the node goes
with the last of them, which is how those tools learn that all is done.
"""

import logging
from collections.abc import Callable, Mapping

from pkafka.coordination.znode_json import ZnodeFormatError
from pkafka.model import BrokerId, TopicPartition
from pkafka.server.controller import nodes
from pkafka.server.controller.state_store import StateStore

log = logging.getLogger("kafka.controller.KafkaController")


class WrittenMoves:
    """See the module. For the controller thread.

    Args:
        states: the way to the node.
    """

    def __init__(self, states: StateStore) -> None:
        self._states = states

    def read(self) -> Mapping[TopicPartition, tuple[BrokerId, ...]]:
        """Where partitions are to go. What cannot be read is said in the log, and asks for nothing."""
        return self._read()[0]

    def drop(self, is_over: Callable[[TopicPartition, tuple[BrokerId, ...]], bool]) -> None:
        """Take moves out of the node.

        Args:
            is_over: says of a partition and where it was to go whether that is to be taken out.

        Raises:
            StoreError: the store failed.
        """
        moves, version = self._read()
        left = {one: brokers for one, brokers in moves.items() if not is_over(one, brokers)}
        if version is None or (moves and len(left) == len(moves)):
            return
        # As in Kafka, one that cannot be read goes as soon as anything moves.
        self._states.answer_wish(
            nodes.REASSIGN_PARTITIONS, nodes.encode_moves(left) if left else None, version
        )

    def _read(self) -> tuple[Mapping[TopicPartition, tuple[BrokerId, ...]], int | None]:
        found = self._states.read_wish(nodes.REASSIGN_PARTITIONS)
        if found is None:
            return {}, None
        data, version = found
        try:
            return nodes.decode_moves(data), version
        except ZnodeFormatError as error:
            log.warning("Ignoring partition reassignment due to invalid json: %s", error)
            return {}, version
