"""The znodes of ACLs and delegation tokens, as Apache Kafka 3.9 writes them; see :mod:`pkafka.coordination.znodes`."""

from base64 import b64decode, b64encode
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from pkafka.coordination.znode_json import from_json, to_json
from pkafka.coordination.znodes import decoder, desanitize, sanitize
from pkafka.model import Millis

ACL_LITERAL: Final = "/kafka-acl"
ACL_EXTENDED: Final = "/kafka-acl-extended"
ACL_CHANGES: Final = "/kafka-acl-changes"
ACL_EXTENDED_CHANGES: Final = "/kafka-acl-extended-changes"
TOKENS: Final = "/delegation_token/tokens"
TOKEN_CHANGES: Final = "/delegation_token/token_changes"  # noqa: S105 - a path

RESOURCE_TYPES: Final = ("Topic", "Group", "Cluster", "TransactionalId", "DelegationToken", "User")
"""Their names in paths."""

ACL_PERSISTENT_PATHS: Final = (
    ACL_LITERAL,
    ACL_CHANGES,
    f"{ACL_EXTENDED}/prefixed",
    ACL_EXTENDED_CHANGES,
    *(f"{root}/{each}" for each in RESOURCE_TYPES for root in (ACL_LITERAL, f"{ACL_EXTENDED}/prefixed")),
)
"""What an authorizer creates at its start."""

TOKEN_PERSISTENT_PATHS: Final = (TOKENS, TOKEN_CHANGES)

_UPPER: Final = {
    "Topic": "TOPIC",
    "Group": "GROUP",
    "Cluster": "CLUSTER",
    "TransactionalId": "TRANSACTIONAL_ID",
    "DelegationToken": "DELEGATION_TOKEN",
    "User": "USER",
}
_FROM_UPPER: Final = {upper: name for name, upper in _UPPER.items()}


class AclEntry(NamedTuple):
    """One rule: ``principal`` (``User:bob``) from ``host`` (or ``*``) may or may not do ``operation``.

    Permission types and operations are written as in the znode: Allow, Deny; Read, IdempotentWrite, All ...
    """

    principal: str
    permission_type: str
    host: str
    operation: str


class ResourceAcls(NamedTuple):
    """``/kafka-acl/TYPE/NAME`` and ``/kafka-acl-extended/prefixed/TYPE/NAME``: the rules of one resource."""

    entries: tuple[AclEntry, ...]

    @staticmethod
    def path(resource_type: str, name: str, *, prefixed: bool = False) -> str:
        root = f"{ACL_EXTENDED}/prefixed" if prefixed else ACL_LITERAL
        return f"{root}/{resource_type}/{name}"

    def encode(self) -> bytes:
        rows = [
            {
                "principal": each.principal,
                "permissionType": each.permission_type,
                "host": each.host,
                "operation": each.operation,
            }
            for each in self.entries
        ]
        return to_json({"acls": rows, "version": 1})

    @classmethod
    @decoder
    def decode(cls, data: bytes) -> "ResourceAcls":
        if not data:
            return cls(())
        rows: Iterable[dict[str, str]] = from_json(data, "ACL")["acls"]
        return cls(
            tuple(
                AclEntry(row["principal"], row["permissionType"], row["host"], row["operation"])
                for row in rows
            )
        )


class AclChange(NamedTuple):
    """``/kafka-acl-changes/acl_changes_N`` and, for prefixed ones, ``/kafka-acl-extended-changes/...``."""

    resource_type: str
    name: str
    prefixed: bool = False

    def create_path(self) -> str:
        return f"{ACL_EXTENDED_CHANGES if self.prefixed else ACL_CHANGES}/acl_changes_"

    def encode(self) -> bytes:
        upper = _UPPER[self.resource_type]
        if not self.prefixed:
            return f"{upper}:{self.name}".encode()
        return to_json({"version": 1, "resourceType": upper, "name": self.name, "patternType": "PREFIXED"})

    @classmethod
    @decoder
    def decode(cls, data: bytes) -> "AclChange":
        if not data.startswith(b"{"):
            upper, colon, name = data.decode().partition(":")
            if not colon:
                raise ValueError(f"{data!r} is no ACL change")
            return cls(_FROM_UPPER[upper.upper()], name)
        value = from_json(data, "ACL change")
        return cls(_FROM_UPPER[value["resourceType"]], value["name"], value["patternType"] == "PREFIXED")


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """``/delegation_token/tokens/ID``: a token without its HMAC. Principals look like ``User:alice``.

    v1 owner, renewers, times · v3 tokenRequester (KIP-373)
    """

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: Millis
    expires_ms: Millis
    expires_latest_ms: Millis

    @staticmethod
    def path(token_id: str) -> str:
        return f"{TOKENS}/{token_id}"

    def encode(self) -> bytes:
        return to_json(
            {
                "issueTimestamp": self.issued_ms,
                "renewers": [sanitize(each) for each in self.renewers],
                "tokenRequester": sanitize(self.requester),
                "tokenId": self.token_id,
                "owner": sanitize(self.owner),
                "expiryTimestamp": self.expires_ms,
                "maxTimestamp": self.expires_latest_ms,
                "version": 3,
            }
        )

    @classmethod
    @decoder
    def decode(cls, data: bytes) -> "DelegationToken":
        value = from_json(data, "delegation token")
        owner = desanitize(value["owner"])
        return cls(
            token_id=str(value["tokenId"]),
            owner=owner,
            requester=desanitize(value["tokenRequester"]) if "tokenRequester" in value else owner,
            renewers=tuple(desanitize(each) for each in value["renewers"]),
            issued_ms=int(value["issueTimestamp"]),
            expires_ms=int(value["expiryTimestamp"]),
            expires_latest_ms=int(value["maxTimestamp"]),
        )


class TokenChange(NamedTuple):
    """``/delegation_token/token_changes/token_change_N`` (sequential): a token was made, renewed or removed."""

    token_id: str

    @staticmethod
    def create_path() -> str:
        return f"{TOKEN_CHANGES}/token_change_"

    def encode(self) -> bytes:
        return self.token_id.encode()

    @classmethod
    @decoder
    def decode(cls, data: bytes) -> "TokenChange":
        return cls(data.decode())


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """The value of ``SCRAM-SHA-256`` or ``SCRAM-SHA-512`` in ``/config/users/NAME``; for brokers alone to see."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int

    def encode(self) -> str:
        parts = {"salt": self.salt, "stored_key": self.stored_key, "server_key": self.server_key}
        shown = [f"{name}={b64encode(value).decode()}" for name, value in parts.items()]
        return ",".join([*shown, f"iterations={self.iterations}"])

    @classmethod
    @decoder
    def decode(cls, text: str) -> "ScramCredential":
        values = dict(each.split("=", 1) for each in text.split(","))
        salt, stored_key, server_key = (
            b64decode(values[name], validate=True) for name in ("salt", "stored_key", "server_key")
        )
        return cls(salt, stored_key, server_key, int(values["iterations"]))
