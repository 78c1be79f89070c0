"""RenewDelegationToken (key 39, v0-2): lengthens the life of a delegation token.

v2 flexible
"""

from pkafka.protocol.schema import Message, binary, int16, int32, int64


class RenewDelegationTokenRequest(Message, key=39, versions="0-2", flexible="2+"):
    hmac: bytes = binary()
    renew_period_ms: int = int64()


class RenewDelegationTokenResponse(Message, key=39, versions="0-2", flexible="2+"):
    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32()
