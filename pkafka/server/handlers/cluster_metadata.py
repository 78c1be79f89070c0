"""Metadata as the workers serve it: from the encoded answer where nothing has to be created, else with the creation."""

from collections.abc import Awaitable, Mapping, Sequence

from pkafka.errors import ErrorCode
from pkafka.protocol.messages.metadata import MetadataRequest
from pkafka.protocol.schema import Message
from pkafka.server.config import BrokerConfig
from pkafka.server.dispatch import RequestContext
from pkafka.server.handlers import metadata
from pkafka.server.metadata import MetadataCache


class _Context:
    """The worker and the connection, as the Metadata handler wants to see them."""

    def __init__(self, context: RequestContext) -> None:
        self._context = context

    @property
    def metadata(self) -> MetadataCache:
        return self._context.worker.metadata

    @property
    def config(self) -> BrokerConfig:
        return self._context.worker.config

    @property
    def listener_name(self) -> str:
        return self._context.listener_name

    async def auto_create(self, names: Sequence[str]) -> Mapping[str, ErrorCode]:
        return await self._context.worker.auto_create(names)


def handle(context: RequestContext, request: MetadataRequest, version: int) -> bytes | Awaitable[Message]:
    """Answer from the cache at once, or create what is missing first."""
    view = _Context(context)
    encoded = metadata.handle_encoded(view, request, version)
    return encoded if encoded is not None else metadata.handle(view, request, version)
