"""Producers that wait for metadata less long than a busy machine may take to bring them."""

from pkafka.clients.errors import ClientTimeoutError
from pkafka.clients.producer import Producer
from tests.talk import wait_for


def wait_for_metadata(producer: Producer, topic: str = "t") -> list[int]:
    """Wait until a producer knows a topic, however small its ``max.block.ms`` is.

    Returns:
        The topic's partitions.
    """
    found: list[list[int]] = []

    def are_there() -> bool:
        try:
            found.append([each.partition for each in producer.partitions_for(topic)])
        except ClientTimeoutError:
            return False
        return True

    wait_for(are_there)
    return found[0]
