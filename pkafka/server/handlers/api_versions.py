"""ApiVersions (key 18, v0-4): what this broker serves (KIP-35, KIP-511, KIP-584).

v1 throttle time · v3 flexible, client software, features · v4 features that begin at version 0
"""

import re
from collections.abc import Mapping
from typing import Final, Protocol

from pkafka.errors import ErrorCode
from pkafka.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from pkafka.server.serving.connection_state import ConnectionState
from pkafka.server.serving.context import RequestContext

_FIRST_VERSION_WITH_SOFTWARE: Final = 3
_FINALIZED_FEATURES_EPOCH: Final = 0
"""The epoch of a cluster with features enabled but none finalized: /feature at its first version (KIP-584)."""
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
"""KIP-511: what a client may call itself, so that it can stand in metric names and logs."""


class Served(Protocol):
    """Knows what is served."""

    @property
    def served(self) -> Mapping[int, range]:
        """The versions by key."""
        ...


class Port(Protocol):
    """What ApiVersions asks of its worker."""

    @property
    def dispatcher(self) -> Served: ...


def handle(
    context: RequestContext[Port], request: ApiVersionsRequest | None, version: int
) -> ApiVersionsResponse:
    """List every key that is served.

    Args:
        context: of the request.
        request: None when the client asked in a version that this broker does not know.
        version: of the answer.
    """
    code = ErrorCode.NONE
    if request is None:
        code = ErrorCode.UNSUPPORTED_VERSION
    elif version >= _FIRST_VERSION_WITH_SOFTWARE and not _names_itself(request):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    elif version >= _FIRST_VERSION_WITH_SOFTWARE:
        state = context.connection.state
        assert isinstance(state, ConnectionState)
        state.software = (request.client_software_name, request.client_software_version)
    keys = [
        ApiVersion(api_key=key, min_version=allowed.start, max_version=allowed.stop - 1)
        for key, allowed in context.worker.dispatcher.served.items()
    ]
    return ApiVersionsResponse(
        error_code=code, api_keys=keys, finalized_features_epoch=_FINALIZED_FEATURES_EPOCH
    )


def _names_itself(request: ApiVersionsRequest) -> bool:
    return all(
        _SOFTWARE.fullmatch(text) for text in (request.client_software_name, request.client_software_version)
    )
