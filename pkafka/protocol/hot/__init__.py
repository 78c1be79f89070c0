"""Produce and Fetch without an object per partition: flat rows in, flat rows out.

The same bytes as the declared messages give through :mod:`pkafka.protocol.codec` (a test compares both at every
version), for the two requests that a busy broker does little else than read and answer. Decoders take a request
frame and the position of its body (see :func:`pkafka.protocol.headers.decode_request_header`), and raise only
ProtocolError. Versions are trusted to be valid ones.
"""

from pkafka.protocol.hot.fetch import (
    FetchedRow,
    FetchHeader,
    FetchRow,
    decode_fetch,
    encode_fetch_response,
)
from pkafka.protocol.hot.parts import CurrentLeader, NodeEndpoint
from pkafka.protocol.hot.produce import (
    ProducedRow,
    ProduceRow,
    decode_produce,
    encode_produce_answer,
    encode_produce_response,
)

__all__ = [
    "CurrentLeader",
    "FetchHeader",
    "FetchRow",
    "FetchedRow",
    "NodeEndpoint",
    "ProduceRow",
    "ProducedRow",
    "decode_fetch",
    "decode_produce",
    "encode_fetch_response",
    "encode_produce_answer",
    "encode_produce_response",
]
