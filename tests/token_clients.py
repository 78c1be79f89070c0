"""A listener where users have tokens made, and others log in by them; each user's password is its name."""

from typing import Final

from pkafka.clients.admin import Admin
from pkafka.clients.admin.delegation_tokens import DelegationToken
from pkafka.errors import PkafkaError
from tests.interop.secured_kafka import PLAIN, SCRAM

USERS: Final = ("alice", "bob", "carol", "dave")
SECRET: Final = "of-the-tests"
_PREFIX: Final = "listener.name.tokens"


def token_settings(port: int, **more: object) -> dict[str, object]:
    """The settings of a broker with such a listener at a port."""
    users = " ".join(f'user_{name}="{name}"' for name in USERS)
    return {
        "listeners": f"PLAINTEXT://127.0.0.1:0,TOKENS://127.0.0.1:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,TOKENS:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        f"{_PREFIX}.plain.sasl.jaas.config": f"{PLAIN} {users};",
        f"{_PREFIX}.scram-sha-256.sasl.jaas.config": f"{SCRAM};",
        f"{_PREFIX}.scram-sha-512.sasl.jaas.config": f"{SCRAM};",
        "delegation.token.secret.key": SECRET,
        **{key.replace("_", "."): value for key, value in more.items()},
    }


def plain_jaas(user: str) -> str:
    """The login of a user."""
    return f'{PLAIN} username="{user}" password="{user}";'


def token_jaas(token: DelegationToken) -> str:
    """The login by a token."""
    return f'{SCRAM} username="{token.token_id}" password="{token.password}" tokenauth="true";'


def as_user(address: str, user: str) -> Admin:
    """A client that logs in by a password."""
    return Admin(_keys(address, plain_jaas(user), "PLAIN"))


def by_token(address: str, token: DelegationToken, mechanism: str = "SCRAM-SHA-512") -> Admin:
    """A client that logs in by a token."""
    return Admin(_keys(address, token_jaas(token), mechanism))


def lets_in(address: str, token: DelegationToken) -> bool:
    """Whether a token lets in."""
    try:
        with by_token(address, token) as client:
            return bool(client.describe_cluster().brokers)
    except PkafkaError:
        return False


def _keys(address: str, jaas: str, mechanism: str) -> dict[str, object]:
    return {
        "bootstrap.servers": address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": jaas,
    }
