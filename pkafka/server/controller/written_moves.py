"""/admin/reassign_partitions: the node in which tools from before Kafka 2.4 ask for moves.

A move stays in the node until the partition has moved, the move is refused, or the API asks for another one. The
controller removes the node with the last move; so the tools learn that all moves are done.
"""

import logging
from collections.abc import Callable, Mapping

from pkafka.coordination.znode_json import ZnodeFormatError
from pkafka.model import BrokerId, TopicPartition
from pkafka.server.controller import nodes
from pkafka.server.controller.state_store import StateStore

log = logging.getLogger("kafka.controller.KafkaController")


class WrittenMoves:
    """Reads moves from the node and removes those that are over. For the controller thread.

    Args:
        states: reads and writes the node.
    """

    def __init__(self, states: StateStore) -> None:
        self._states = states

    def read(self) -> Mapping[TopicPartition, tuple[BrokerId, ...]]:
        """Read the moves. Content that cannot be decoded is logged and counts as no move."""
        return self._read()[0]

    def drop(self, is_over: Callable[[TopicPartition, tuple[BrokerId, ...]], bool]) -> None:
        """Take moves out of the node.

        Args:
            is_over: says for a partition and its target whether the move is over.

        Raises:
            StoreError: the store failed.
        """
        moves, version = self._read()
        left = {one: brokers for one, brokers in moves.items() if not is_over(one, brokers)}
        if version is None or (moves and len(left) == len(moves)):
            return
        # As in Kafka, a node that cannot be decoded is removed as soon as any partition moves.
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
