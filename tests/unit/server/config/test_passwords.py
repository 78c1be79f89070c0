"""Passwords among the dynamic settings of a broker: encrypted in the store, in the clear where they count."""

import asyncio
from pathlib import Path
from typing import Final

import pytest

from pkafka.coordination.znodes import EntityConfig
from pkafka.errors import ErrorCode
from pkafka.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from pkafka.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pkafka.security.password_encoder import PasswordEncoder
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.config.dynamic import Operation, ResourceType
from pkafka.server.config.passwords import password_encoder
from pkafka.server.handlers import describe_configs, incremental_alter_configs
from tests.fakes.config_context import FakeControl
from tests.unit.server.security.stores import PASSWORD, Stores

KEY: Final = "listener.name.ssl.ssl.keystore.password"
LOCATION: Final = "listener.name.ssl.ssl.keystore.location"
NODE: Final = "/config/brokers/0"


def control(directory: Path, **settings: object) -> FakeControl:
    """A broker whose listener SSL has a PKCS#12 store, its password in the file."""
    stores = Stores(directory)
    (directory / "second.p12").write_bytes(stores.signed.pkcs12("second"))
    static = stores.config(
        ssl_keystore_type="PKCS12",
        ssl_keystore_location=directory / "own.p12",
        ssl_keystore_password=PASSWORD,
        ssl_truststore_location=None,
        ssl_truststore_type=None,
        **settings,
    )
    return FakeControl(directory, static, broker_id=0)


def alter(made: FakeControl, **changes: str) -> tuple[int, str | None]:
    configs = [
        AlterableConfig(name=name, config_operation=Operation.SET, value=value)
        for name, value in changes.items()
    ]
    resource = AlterConfigsResource(resource_type=ResourceType.BROKER, resource_name="0", configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[resource])
    (answer,) = asyncio.run(incremental_alter_configs.handle(made, request, 1)).responses
    return answer.error_code, answer.error_message


def stored(made: FakeControl) -> dict[str, str]:
    return dict(EntityConfig.decode(made.store.get(NODE)[0]).config)


def second(directory: Path) -> dict[str, str]:
    """Changes to the second store, whose password is another one."""
    return {KEY: "second", LOCATION: str(directory / "second.p12")}


def test_a_password_is_stored_encrypted_and_counts_in_the_clear(tmp_path: Path) -> None:
    made = control(tmp_path, password_encoder_secret="secret")
    assert alter(made, **second(tmp_path)) == (ErrorCode.NONE, None)
    text = stored(made)[KEY]
    assert "second" not in text
    assert PasswordEncoder("secret", bytes).decode(text) == "second"
    assert made.configs.layers.current.originals[KEY] == "second"
    assert alter(made, **{"log.cleaner.backoff.ms": "7"})[0] == ErrorCode.NONE
    assert stored(made)[KEY] == text  # as it was
    resource = DescribeConfigsResource(
        resource_type=ResourceType.BROKER, resource_name="0", configuration_keys=None
    )
    request = DescribeConfigsRequest(resources=[resource])
    (described,) = asyncio.run(describe_configs.handle(made, request, 4)).results
    (value,) = [one for one in described.configs if one.name == KEY]
    assert (value.value, value.is_sensitive) == (None, True)
    made.close()
    again = control(tmp_path, password_encoder_secret="secret")
    assert again.configs.layers.current.originals[KEY] == "second"
    again.close()


def test_without_a_secret_none_is_stored_and_none_is_lost(tmp_path: Path) -> None:
    made = control(tmp_path, password_encoder_secret="secret")
    assert alter(made, **second(tmp_path))[0] == ErrorCode.NONE
    text = stored(made)[KEY]
    made.close()
    bare = control(tmp_path)
    code, message = alter(bare, **{KEY: "third"})
    assert code == ErrorCode.INVALID_REQUEST
    assert message == f"Password config {KEY} cannot be stored: password.encoder.secret is not set."
    assert alter(bare, **{LOCATION: str(tmp_path / "own.p12")})[0] == ErrorCode.NONE
    assert stored(bare)[KEY] == text
    bare.close()


def test_passwords_of_the_old_secret_are_encrypted_anew_at_the_start(tmp_path: Path) -> None:
    made = control(tmp_path, password_encoder_secret="old")
    assert alter(made, **second(tmp_path))[0] == ErrorCode.NONE
    made.close()
    changed = control(tmp_path, password_encoder_secret="new", password_encoder_old_secret="old")
    assert PasswordEncoder("new", bytes).decode(stored(changed)[KEY]) == "second"
    assert changed.configs.layers.current.originals[KEY] == "second"
    changed.close()


def test_how_passwords_are_encrypted() -> None:
    settings = {
        "password.encoder.secret": "secret",
        "password.encoder.key.length": "256",
        "password.encoder.iterations": "2048",
        "password.encoder.keyfactory.algorithm": "PBKDF2WithHmacSHA1",
    }
    encoder = password_encoder(BrokerConfig({"broker.id": "0", **settings}))
    assert encoder is not None
    text = encoder.encode("password")
    for part in ("keyFactoryAlgorithm:PBKDF2WithHmacSHA1", "keyLength:256", "iterations:2048"):
        assert part in text.split(",")
    assert password_encoder(BrokerConfig({"broker.id": "0"})) is None


@pytest.mark.parametrize("password", ["wrong", ""])
def test_a_password_that_does_not_open_the_store_is_refused(tmp_path: Path, password: str) -> None:
    made = control(tmp_path, password_encoder_secret="secret")
    code, message = alter(made, **{KEY: password})
    assert code == ErrorCode.INVALID_REQUEST
    assert "wrong" not in (message or "")
    made.close()
