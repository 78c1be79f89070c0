"""CreateDelegationToken (key 38, v0-3): makes a delegation token (KIP-48).

v2 flexible · v3 for another owner (KIP-373)
"""

from pkafka.protocol.schema import Message, array, binary, int16, int32, int64, string


class CreatableRenewers(Message):
    principal_type: str = string()
    principal_name: str = string()


class CreateDelegationTokenRequest(Message, key=38, versions="0-3", flexible="2+"):
    owner_principal_type: str | None = string("3+", nullable="3+")
    owner_principal_name: str | None = string("3+", nullable="3+")
    renewers: list[CreatableRenewers] = array(CreatableRenewers)
    max_lifetime_ms: int = int64()


class CreateDelegationTokenResponse(Message, key=38, versions="0-3", flexible="2+"):
    error_code: int = int16()
    principal_type: str = string()
    principal_name: str = string()
    token_requester_principal_type: str = string("3+")
    token_requester_principal_name: str = string("3+")
    issue_timestamp_ms: int = int64()
    expiry_timestamp_ms: int = int64()
    max_timestamp_ms: int = int64()
    token_id: str = string()
    hmac: bytes = binary()
    throttle_time_ms: int = int32()
