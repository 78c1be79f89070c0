"""DescribeUserScramCredentials (key 50, v0): which SCRAM mechanisms users have (KIP-554)."""

from pkafka.protocol.schema import Message, array, int8, int16, int32, string


class UserName(Message):
    name: str = string()


class DescribeUserScramCredentialsRequest(Message, key=50, versions="0", flexible="0+"):
    users: list[UserName] | None = array(UserName, nullable="0+")


class CredentialInfo(Message):
    mechanism: int = int8()
    iterations: int = int32()


class DescribeUserScramCredentialsResult(Message):
    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    credential_infos: list[CredentialInfo] = array(CredentialInfo)


class DescribeUserScramCredentialsResponse(Message, key=50, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    results: list[DescribeUserScramCredentialsResult] = array(DescribeUserScramCredentialsResult)
