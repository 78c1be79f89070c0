"""A broker on a socket that takes markers, and answers what the test says."""

import asyncio
import contextlib
import struct
from collections.abc import Callable
from functools import partial
from typing import Any, Self

from pkafka.errors import ErrorCode
from pkafka.protocol.codec import decode_request
from pkafka.protocol.headers import decode_request_header, encode_response
from pkafka.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from pkafka.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from pkafka.protocol.registry import request_class
from pkafka.protocol.schema import Message

Code = Callable[[str, int], ErrorCode]


class MarkerReceiver:
    """Listens on a port of its own.

    Attributes:
        requests: that came, in order: client id, version, message.
        code: gives the answer for a partition.
        holds: whether requests wait for :meth:`answer` or :meth:`hang_up`.
        producers: what it says of the producers of each partition.
    """

    def __init__(self) -> None:
        self.requests: list[tuple[str | None, int, Message]] = []
        self.code: Code = lambda _topic, _index: ErrorCode.NONE
        self.holds = False
        self.producers: list[ProducerState] = []
        self.port = 0
        self._held: list[tuple[asyncio.StreamWriter, Callable[[], bytes]]] = []
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._take, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_error: object) -> None:
        assert self._server is not None
        self.hang_up()
        self._server.close()
        await self._server.wait_closed()

    @property
    def markers(self) -> list[list[tuple[int, int, bool, dict[str, list[int]]]]]:
        """Of each request: producer id, coordinator epoch, whether it commits, and partitions by topic."""
        return [
            [
                (
                    one.producer_id,
                    one.coordinator_epoch,
                    one.transaction_result,
                    {topic.name: topic.partition_indexes for topic in one.topics},
                )
                for one in request.markers
            ]
            for _client_id, _version, request in self.requests
            if isinstance(request, WriteTxnMarkersRequest)
        ]

    def answer(self) -> None:
        """Answer all requests that wait."""
        held, self._held = self._held, []
        for writer, response in held:
            writer.write(response())

    def hang_up(self) -> None:
        """Close all connections, whatever waits."""
        self._held.clear()
        for writer in self._writers:
            writer.close()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                frame = await reader.readexactly(size)
                header, position = decode_request_header(memoryview(frame))
                request = decode_request(request_class(header.api_key), header.api_version, frame[position:])
                self.requests.append((header.client_id, header.api_version, request))
                self._held.append((writer, partial(self._response, header, request)))
                if not self.holds:
                    self.answer()
        self._writers.discard(writer)
        writer.close()

    def _response(self, header: Any, request: Message) -> bytes:
        response = (
            self._described(request)
            if isinstance(request, DescribeProducersRequest)
            else self._written(request)
        )
        return encode_response(header.api_key, header.api_version, header.correlation_id, response)

    def _described(self, request: DescribeProducersRequest) -> DescribeProducersResponse:
        return DescribeProducersResponse(
            topics=[
                TopicResponse(
                    name=topic.name,
                    partitions=[
                        PartitionResponse(partition_index=index, active_producers=self.producers)
                        for index in topic.partition_indexes
                    ],
                )
                for topic in request.topics
            ]
        )

    def _written(self, request: Message) -> WriteTxnMarkersResponse:
        assert isinstance(request, WriteTxnMarkersRequest)
        return WriteTxnMarkersResponse(
            markers=[
                WritableTxnMarkerResult(
                    producer_id=marker.producer_id,
                    topics=[
                        WritableTxnMarkerTopicResult(
                            name=topic.name,
                            partitions=[
                                WritableTxnMarkerPartitionResult(
                                    partition_index=index, error_code=self.code(topic.name, index)
                                )
                                for index in topic.partition_indexes
                            ],
                        )
                        for topic in marker.topics
                    ],
                )
                for marker in request.markers
            ]
        )
