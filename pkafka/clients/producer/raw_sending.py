"""Batches that are sent as the bytes that they are."""

from pkafka.clients.config import ProducerConfig
from pkafka.clients.errors import ClientError, ClientTimeoutError, ClosedError
from pkafka.clients.producer.accumulator import Accumulator
from pkafka.clients.producer.batch import Part
from pkafka.clients.producer.futures import BatchFuture, BatchMetadata, Sent
from pkafka.clients.producer.metadata import ProducerMetadata
from pkafka.clients.producer.size_limits import SizeLimits
from pkafka.errors import ApiError
from pkafka.protocol import Buffer
from pkafka.records.builder import BatchBuilder, encode_headers
from pkafka.records.forwarding import in_pieces
from pkafka.records.reading import read_records


class RawSending:
    """Queues finished batches, in parts where one is too large for a request.

    Args:
        config: max.request.size, buffer.memory, max.block.ms.
        accumulator: gets the batches.
        metadata: of the topics.
        limits: for a record that is too large by itself.
    """

    def __init__(
        self,
        config: ProducerConfig,
        accumulator: Accumulator,
        metadata: ProducerMetadata,
        limits: SizeLimits,
    ) -> None:
        self._max_block_ms = config.max_block_ms
        self._bytes_max = min(config.max_request_size, config.buffer_memory)
        self._accumulator = accumulator
        self._metadata = metadata
        self._limits = limits

    def send(
        self, topic: str, data: Buffer, partition: int, now_ms: int
    ) -> tuple[BatchFuture, Exception | None]:
        """Queue a batch.

        Args:
            now_ms: monotonic.

        Returns:
            What becomes of it, and what kept a part of it from being queued.

        Raises:
            RecordError: it cannot be sent as it is.
            ClosedError: the producer was closed.
        """
        builders = in_pieces(data, self._bytes_max)
        stamp, count = builders[0].max_timestamp, sum(each.count for each in builders)
        sent: list[Sent] = []
        first = 0
        try:
            deadline_ms = now_ms + self._max_block_ms
            layout = self._metadata.layout(topic, partition, deadline_ms)
            for builder in builders:
                self._check(builder)
                batch = self._accumulator.append_raw(layout, partition, builder, deadline_ms)
                sent.append(Sent(Part(batch, 0, builder.count), range(first, first + builder.count)))
                first += builder.count
        except (ApiError, ClientTimeoutError, ClientError) as error:
            if isinstance(error, ClosedError) and not sent:
                raise
            left = range(first, count)
            failed = BatchMetadata(topic, partition, -1, len(left), -1, left, error)
            return BatchFuture(stamp, sent, failed), error
        return BatchFuture(stamp, sent), None

    def _check(self, builder: BatchBuilder) -> None:
        if builder.size_bytes > self._bytes_max:
            for record in read_records(builder.build(), check_crc=False):
                self._limits.check(record.key, record.value, encode_headers(record.headers))
