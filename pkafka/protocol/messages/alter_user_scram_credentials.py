"""AlterUserScramCredentials (key 51, v0): sets and removes SCRAM credentials (KIP-554)."""

from pkafka.protocol.schema import Message, array, binary, int8, int16, int32, string


class ScramCredentialDeletion(Message):
    name: str = string()
    mechanism: int = int8()


class ScramCredentialUpsertion(Message):
    name: str = string()
    mechanism: int = int8()
    iterations: int = int32()
    salt: bytes = binary()
    salted_password: bytes = binary()


class AlterUserScramCredentialsRequest(Message, key=51, versions="0", flexible="0+"):
    deletions: list[ScramCredentialDeletion] = array(ScramCredentialDeletion)
    upsertions: list[ScramCredentialUpsertion] = array(ScramCredentialUpsertion)


class AlterUserScramCredentialsResult(Message):
    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


class AlterUserScramCredentialsResponse(Message, key=51, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    results: list[AlterUserScramCredentialsResult] = array(AlterUserScramCredentialsResult)
