"""What the admin client asks about quotas and credentials, at every version, and of a broker that is no controller."""

import pytest

from pkafka.clients.admin import Admin
from pkafka.clients.admin.client_quotas import CLIENT_ID, USER, QuotaFilter, QuotaMatch, quota_entity
from pkafka.clients.admin.scram import ScramCredentialInfo, ScramDeletion, ScramUpsertion
from pkafka.errors import ApiError, ErrorCode
from pkafka.net.scram import ScramMechanism, salted_password
from pkafka.protocol.api import ApiKey
from pkafka.protocol.messages import alter_client_quotas as alter
from pkafka.protocol.messages import alter_user_scram_credentials as alter_scram
from pkafka.protocol.messages import describe_client_quotas as describe
from pkafka.protocol.messages import describe_user_scram_credentials as describe_scram
from pkafka.protocol.schema import Message
from tests.fakes.broker import FakeBroker
from tests.talk import code_of

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
PAIR = quota_entity(user="ü", client_id=None)


def admin_of(broker: FakeBroker) -> Admin:
    return Admin({"bootstrap.servers": broker.bootstrap, "retry.backoff.ms": 1, "retry.backoff.max.ms": 1})


@pytest.mark.parametrize("version", [0, 1])
def test_quotas_are_described(version: int) -> None:
    def answer(message: Message, asked: int) -> Message:
        assert isinstance(message, describe.DescribeClientQuotasRequest)
        assert asked == version
        assert message.strict
        assert [(each.entity_type, each.match_type, each.match) for each in message.components] == [
            ("user", 0, "ü"),
            ("client-id", 1, None),
        ]
        entity = [
            describe.EntityData(entity_type="client-id", entity_name=None),
            describe.EntityData(entity_type="user", entity_name="ü"),
        ]
        values = [describe.ValueData(key="consumer_byte_rate", value=0.5)]
        return describe.DescribeClientQuotasResponse(
            entries=[describe.EntryData(entity=entity, values=values)]
        )

    with FakeBroker() as broker, admin_of(broker) as admin:
        broker.versions[ApiKey.DESCRIBE_CLIENT_QUOTAS] = (0, version)
        broker.handlers[ApiKey.DESCRIBE_CLIENT_QUOTAS] = answer
        filters = [QuotaFilter(USER, QuotaMatch.EXACT, "ü"), QuotaFilter(CLIENT_ID, QuotaMatch.DEFAULT)]
        assert admin.describe_client_quotas(filters, strict=True) == {PAIR: {"consumer_byte_rate": 0.5}}


def test_quotas_that_may_not_be_described() -> None:
    with FakeBroker() as broker, admin_of(broker) as admin:
        refusal = describe.DescribeClientQuotasResponse(error_code=31, error_message="no", entries=None)
        broker.handlers[ApiKey.DESCRIBE_CLIENT_QUOTAS] = lambda *_: refusal
        with pytest.raises(ApiError) as refused:
            admin.describe_client_quotas()
    assert (refused.value.code, refused.value.message) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "no")


@pytest.mark.parametrize("version", [0, 1])
def test_quotas_are_changed(version: int) -> None:
    def answer(message: Message, asked: int) -> Message:
        assert isinstance(message, alter.AlterClientQuotasRequest)
        assert (asked, message.validate_only) == (version, True)
        (entry,) = message.entries
        assert [(each.entity_type, each.entity_name) for each in entry.entity] == [
            ("client-id", None),
            ("user", "ü"),
        ]
        assert [(each.key, each.value, each.remove) for each in entry.ops] == [
            ("a", 0.0, False),
            ("b", 0.0, True),
        ]
        entity = [
            alter.AlterClientQuotasResponseEntityData(
                entity_type=each.entity_type, entity_name=each.entity_name
            )
            for each in entry.entity
        ]
        row = alter.AlterClientQuotasResponseEntryData(error_code=42, error_message="no", entity=entity)
        return alter.AlterClientQuotasResponse(entries=[row])

    with FakeBroker() as broker, admin_of(broker) as admin:
        broker.versions[ApiKey.ALTER_CLIENT_QUOTAS] = (0, version)
        broker.handlers[ApiKey.ALTER_CLIENT_QUOTAS] = answer
        outcomes = admin.alter_client_quotas({PAIR: {"a": 0.0, "b": None}}, validate_only=True)
    assert code_of(outcomes[PAIR]) is ErrorCode.INVALID_REQUEST


def test_credentials_are_changed_at_the_controller_and_no_password_travels() -> None:
    codes = [41, 0]

    def answer(message: Message, _: int) -> Message:
        assert isinstance(message, alter_scram.AlterUserScramCredentialsRequest)
        (upsertion,) = message.upsertions
        assert (upsertion.name, upsertion.mechanism, upsertion.iterations) == ("a", 1, 5000)
        assert upsertion.salted_password == salted_password(SHA_256, b"hush", upsertion.salt, 5000)
        assert b"hush" not in upsertion.salt + upsertion.salted_password
        assert [(each.name, each.mechanism) for each in message.deletions] == [("a", 2)]
        row = alter_scram.AlterUserScramCredentialsResult(user="a", error_code=codes.pop(0))
        return alter_scram.AlterUserScramCredentialsResponse(results=[row])

    changes: list[ScramUpsertion | ScramDeletion] = [
        ScramUpsertion(user="a", mechanism=SHA_256, password=b"hush", iterations=5000),
        ScramDeletion(user="a", mechanism=SHA_512),
        ScramUpsertion(user="b", mechanism=SHA_256, password=b""),
        ScramDeletion(user="b", mechanism=SHA_512),
        ScramUpsertion(user="c", mechanism=ScramMechanism.UNKNOWN, password=b"hush"),
        ScramUpsertion(user="d", mechanism=SHA_256, password=b"hush", iterations=0),
        ScramDeletion(user="", mechanism=SHA_256),
    ]
    assert "hush" not in repr(changes)
    with FakeBroker() as broker, admin_of(broker) as admin:
        broker.handlers[ApiKey.ALTER_USER_SCRAM_CREDENTIALS] = answer
        outcomes = admin.alter_user_scram_credentials(changes)
        asked = len(broker.requests)
        alone = admin.alter_user_scram_credentials(changes[-1:])
        assert len(broker.requests) == asked, "nothing is left to ask for"
    assert not codes
    assert outcomes["a"] is None
    assert {user: code_of(outcome) for user, outcome in outcomes.items() if outcome is not None} == {
        "b": ErrorCode.UNACCEPTABLE_CREDENTIAL,
        "c": ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        "d": ErrorCode.UNACCEPTABLE_CREDENTIAL,
        "": ErrorCode.UNACCEPTABLE_CREDENTIAL,
    }
    assert code_of(alone[""]) is ErrorCode.UNACCEPTABLE_CREDENTIAL


def test_credentials_are_described() -> None:
    def answer(message: Message, _: int) -> Message:
        assert isinstance(message, describe_scram.DescribeUserScramCredentialsRequest)
        assert (None if message.users is None else [each.name for each in message.users]) == wanted
        infos = [
            describe_scram.CredentialInfo(mechanism=number, iterations=4096 + number) for number in (2, 1, 9)
        ]
        results = [
            describe_scram.DescribeUserScramCredentialsResult(user="a", credential_infos=infos),
            describe_scram.DescribeUserScramCredentialsResult(user="b", error_code=91),
        ]
        return describe_scram.DescribeUserScramCredentialsResponse(results=results)

    with FakeBroker() as broker, admin_of(broker) as admin:
        broker.handlers[ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS] = answer
        for wanted in (None, ["a", "b"]):
            found = admin.describe_user_scram_credentials(wanted)
            assert found["a"] == (
                ScramCredentialInfo(SHA_512, 4098),
                ScramCredentialInfo(SHA_256, 4097),
                ScramCredentialInfo(ScramMechanism.UNKNOWN, 4105),
            )
            assert code_of(found["b"]) is ErrorCode.RESOURCE_NOT_FOUND
