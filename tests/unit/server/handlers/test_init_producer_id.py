"""InitProducerId without a transactional id: any worker answers, with a number that the control process gives."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pkafka.errors import ErrorCode
from pkafka.protocol.api import ApiKey
from pkafka.protocol.headers import RequestHeader
from pkafka.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from pkafka.server.handlers import init_producer_id
from pkafka.server.serving.context import RequestContext


def answer(request: InitProducerIdRequest, next_id: int | None) -> InitProducerIdResponse:
    """The answer of a worker whose control process gives this number."""

    async def new_producer_id() -> int | None:
        return next_id

    async def asked() -> InitProducerIdResponse:
        worker = SimpleNamespace(
            authorizer=None, transactions=SimpleNamespace(new_producer_id=new_producer_id)
        )
        header = RequestHeader(ApiKey.INIT_PRODUCER_ID, 4, 1, "me")
        context: RequestContext[Any] = RequestContext(cast("Any", worker), cast("Any", None), header)
        outcome: Any = init_producer_id.handle(context, request, 4)
        return cast(
            "InitProducerIdResponse",
            outcome if isinstance(outcome, InitProducerIdResponse) else await outcome,
        )

    return asyncio.run(asked())


@pytest.mark.parametrize(
    ("transactional_id", "producer_id", "epoch", "expected"),
    [
        (None, -1, -1, ErrorCode.NONE),
        (None, 7, 3, ErrorCode.NONE),
        (None, 7, -1, ErrorCode.INVALID_REQUEST),
        (None, -1, 3, ErrorCode.INVALID_REQUEST),
        ("", -1, -1, ErrorCode.INVALID_REQUEST),
    ],
)
def test_an_identity_is_given_or_refused(
    transactional_id: str | None, producer_id: int, epoch: int, expected: ErrorCode
) -> None:
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=1000,
        producer_id=producer_id,
        producer_epoch=epoch,
    )
    response = answer(request, 5)
    assert response.error_code == expected
    good = expected is ErrorCode.NONE
    assert (response.producer_id, response.producer_epoch) == ((5, 0) if good else (-1, -1))


def test_a_producer_asks_again_while_no_number_can_be_had() -> None:
    response = answer(InitProducerIdRequest(transactional_id=None), None)
    assert response.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
