"""AlterClientQuotas (key 49, v0-1): sets and removes quotas (KIP-546).

v1 flexible
"""

from pkafka.protocol.schema import Message, array, boolean, float64, int16, int32, string


class AlterClientQuotasRequestEntityData(Message):
    entity_type: str = string()
    entity_name: str | None = string(nullable="0+")


class OpData(Message):
    key: str = string()
    value: float = float64()
    remove: bool = boolean()


class AlterClientQuotasRequestEntryData(Message):
    entity: list[AlterClientQuotasRequestEntityData] = array(AlterClientQuotasRequestEntityData)
    ops: list[OpData] = array(OpData)


class AlterClientQuotasRequest(Message, key=49, versions="0-1", flexible="1+"):
    entries: list[AlterClientQuotasRequestEntryData] = array(AlterClientQuotasRequestEntryData)
    validate_only: bool = boolean()


class AlterClientQuotasResponseEntityData(Message):
    entity_type: str = string()
    entity_name: str | None = string(nullable="0+")


class AlterClientQuotasResponseEntryData(Message):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    entity: list[AlterClientQuotasResponseEntityData] = array(AlterClientQuotasResponseEntityData)


class AlterClientQuotasResponse(Message, key=49, versions="0-1", flexible="1+"):
    throttle_time_ms: int = int32()
    entries: list[AlterClientQuotasResponseEntryData] = array(AlterClientQuotasResponseEntryData)
