"""What is known of a client survives the way to another process."""

import msgpack

from pkafka.protocol.api import ApiKey
from pkafka.protocol.codec import encode
from pkafka.protocol.messages.heartbeat import HeartbeatRequest
from pkafka.server.serving.context import ANONYMOUS, Caller, Forwarded


def test_a_request_and_its_client_arrive_as_they_were_sent() -> None:
    for client_id in ("me", None):
        caller = Caller(client_id, "10.0.0.1", "PLAINTEXT")
        sent = Forwarded(ApiKey.HEARTBEAT, 4, caller)
        come = Forwarded.of(msgpack.unpackb(msgpack.packb(sent)))
        assert come == sent
        assert come.caller.principal == ANONYMOUS
        body = encode(HeartbeatRequest(group_id="g", member_id="m"), 4)
        request = come.request(memoryview(body))
        assert isinstance(request, HeartbeatRequest)
        assert (request.group_id, request.member_id) == ("g", "m")
