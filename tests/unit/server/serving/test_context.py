"""What is known of a client survives the way to another process."""

import msgpack

from pkafka.protocol.api import ApiKey
from pkafka.protocol.codec import encode
from pkafka.protocol.messages.heartbeat import HeartbeatRequest
from pkafka.security.principal import ANONYMOUS, Principal
from pkafka.server.serving.context import Caller, Forwarded


def test_a_request_and_its_client_arrive_as_they_were_sent() -> None:
    for client_id, principal in (("me", ANONYMOUS), (None, Principal("User", "CN=a, O=b"))):
        caller = Caller(client_id, "10.0.0.1", "SASL", principal)
        sent = Forwarded(ApiKey.HEARTBEAT, 4, caller)
        come = Forwarded.of(msgpack.unpackb(msgpack.packb(sent)))
        assert come == sent
        assert str(come.caller.principal) == str(principal)
        body = encode(HeartbeatRequest(group_id="g", member_id="m"), 4)
        request = come.request(memoryview(body))
        assert isinstance(request, HeartbeatRequest)
        assert (request.group_id, request.member_id) == ("g", "m")
