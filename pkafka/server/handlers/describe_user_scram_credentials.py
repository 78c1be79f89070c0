"""DescribeUserScramCredentials (key 50, v0): which SCRAM mechanisms users have (KIP-554); the control process
serves it.

It reads the store, as Kafka does: any broker knows at once what the controller has written.
"""

import logging
from collections import Counter
from collections.abc import Mapping
from typing import Final, Protocol

from pkafka.coordination.entity_configs import read_config, read_configs
from pkafka.coordination.store import Store, StoreError
from pkafka.coordination.znode_json import ZnodeFormatError
from pkafka.coordination.znodes import desanitize, sanitize
from pkafka.coordination.znodes_security import ScramCredential
from pkafka.errors import ApiError, ErrorCode
from pkafka.net.scram import KNOWN
from pkafka.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from pkafka.security.acl import Operation
from pkafka.server.config.repository import USERS
from pkafka.server.ports.controller_context import ControllerContext
from pkafka.server.security.rights import may_in_cluster

log = logging.getLogger(__name__)

_TWICE: Final = "Cannot describe SCRAM credentials for the same user twice in a single request"


class Context(ControllerContext, Protocol):
    """The control process, as this handler sees it."""

    @property
    def store(self) -> Store:
        """The coordination store of the present session; use it on the controller thread only."""
        ...


async def handle(
    ctx: Context, request: DescribeUserScramCredentialsRequest, version: int
) -> DescribeUserScramCredentialsResponse:
    """Describe the users that are named, or all that have a credential, by name."""
    if not may_in_cluster(ctx.rights, Operation.DESCRIBE):
        denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return DescribeUserScramCredentialsResponse(
            error_code=denied,
            error_message=None,
            # As many as users are named; Kafka does not say which is whose.
            results=[
                DescribeUserScramCredentialsResult(error_code=denied, error_message=None)
                for _ in request.users or ()
            ],
        )
    try:
        if request.users:
            return DescribeUserScramCredentialsResponse(
                results=await _named(ctx, [user.name for user in request.users])
            )
        every = await ctx.run(read_configs, ctx.store, USERS)
    except (StoreError, ZnodeFormatError) as error:
        log.warning("SCRAM credentials could not be described: %s", error)
        failed = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
        return DescribeUserScramCredentialsResponse(error_code=failed.code, error_message=failed.message)
    users = {desanitize(name): configs for name, configs in every.items()}
    results = [_described(user, users[user]) for user in sorted(users) if _has_any(users[user])]
    return DescribeUserScramCredentialsResponse(results=results)


async def _named(ctx: Context, names: list[str]) -> list[DescribeUserScramCredentialsResult]:
    times = Counter(names)
    results = []
    for user in times:
        if not user:
            results.append(_failed(user, ErrorCode.RESOURCE_NOT_FOUND, "Username must not be empty"))
        elif times[user] > 1:
            results.append(_failed(user, ErrorCode.DUPLICATE_RESOURCE, f"{_TWICE}: {user}"))
        else:
            configs = await ctx.run(read_config, ctx.store, USERS, sanitize(user))
            results.append(_described(user, configs))
    return results


def _has_any(configs: Mapping[str, str]) -> bool:
    return any(mechanism.mechanism_name in configs for mechanism in KNOWN)


def _described(user: str, configs: Mapping[str, str]) -> DescribeUserScramCredentialsResult:
    if not _has_any(configs):
        sentence = f"Attempt to describe a user credential that does not exist: {user}"
        return _failed(user, ErrorCode.RESOURCE_NOT_FOUND, sentence)
    infos = []
    for mechanism in KNOWN:
        text = configs.get(mechanism.mechanism_name)
        if text is None:
            continue
        try:
            credential = ScramCredential.decode(text)
        except ZnodeFormatError:
            log.error("the %s credential of user %s cannot be read", mechanism.mechanism_name, user)
            return _failed(user, ErrorCode.UNKNOWN_SERVER_ERROR, "Invalid credentials")
        infos.append(CredentialInfo(mechanism=mechanism, iterations=credential.iterations))
    return DescribeUserScramCredentialsResult(user=user, credential_infos=infos)


def _failed(user: str, code: ErrorCode, message: str) -> DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResult(user=user, error_code=code, error_message=message)
