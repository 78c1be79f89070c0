"""What the old clients raise beside the errors that all clients share; the names are those of Kafka's exceptions."""

from pkafka.clients.errors import ClientError


class ConsumerTimeoutError(ClientError):
    """No message came to a stream within ``consumer.timeout.ms``; iterating again goes on."""


class ConsumerRebalanceFailedError(ClientError):
    """A member could not take its partitions over within ``rebalance.max.retries`` attempts."""


class MessageStreamsExistError(ClientError):
    """A connector gives its streams once."""


class FailedToSendMessageError(ClientError):
    """The old producer gave messages up after ``message.send.max.retries``."""


class QueueFullError(ClientError):
    """The queue of an asynchronous old producer stayed full for ``queue.enqueue.timeout.ms``."""
