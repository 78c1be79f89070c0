"""AlterUserScramCredentials (key 51, v0): sets and removes users' SCRAM credentials (KIP-554); the control process
serves it.

All that is asked of a user happens, or nothing of it. The salted password comes from the client, so this broker never
sees the password; what is stored of it is what proofs are checked by.
"""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol

from pkafka.coordination.store import StoreError
from pkafka.coordination.znode_json import ZnodeFormatError
from pkafka.coordination.znodes import sanitize
from pkafka.coordination.znodes_security import ScramCredential
from pkafka.errors import ApiError, ErrorCode
from pkafka.net.scram import ITERATIONS_MAX, ScramMechanism, keys_of
from pkafka.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from pkafka.security.acl import Operation
from pkafka.server.config.repository import USERS, ConfigRepository
from pkafka.server.ports.controller_context import ControllerContext
from pkafka.server.security.rights import may_in_cluster

log = logging.getLogger(__name__)

_KNOWN: Final = frozenset({ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512})


class Context(ControllerContext, Protocol):
    """The control process, as this handler sees it."""

    @property
    def configs(self) -> ConfigRepository:
        """The settings of users; change them on the controller thread only."""
        ...

    async def in_force(self) -> None:
        """Wait until no worker of this broker lets users in by what was stored before."""
        ...


class _Changes(NamedTuple):
    """What is asked of one user."""

    deletions: Sequence[ScramCredentialDeletion]
    upsertions: Sequence[ScramCredentialUpsertion]


async def handle(
    ctx: Context, request: AlterUserScramCredentialsRequest, version: int
) -> AlterUserScramCredentialsResponse:
    """Change each user's credentials on their own."""
    users = dict.fromkeys([row.name for row in request.deletions] + [row.name for row in request.upsertions])
    if ctx.controller.is_active and not may_in_cluster(ctx.rights, Operation.ALTER):
        return AlterUserScramCredentialsResponse(
            results=[
                AlterUserScramCredentialsResult(
                    user=user, error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message=None
                )
                for user in users
            ]
        )
    results = []
    for user in users:
        changes = _Changes(
            [row for row in request.deletions if row.name == user],
            [row for row in request.upsertions if row.name == user],
        )
        results.append(await _result(ctx, user, changes))
    return AlterUserScramCredentialsResponse(results=results)


async def _result(ctx: Context, user: str, changes: _Changes) -> AlterUserScramCredentialsResult:
    try:
        if not ctx.controller.is_active:
            raise ApiError(ErrorCode.NOT_CONTROLLER)
        check(user, changes.deletions, changes.upsertions)
        await ctx.run(ctx.configs.update, USERS, sanitize(user), partial(_changed, changes))
        await ctx.in_force()
    except ApiError as error:
        return AlterUserScramCredentialsResult(user=user, error_code=error.code, error_message=error.message)
    except (StoreError, ZnodeFormatError) as error:
        log.warning("the SCRAM credentials of %s could not be changed: %s", user, error)
        failed = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
        return AlterUserScramCredentialsResult(
            user=user, error_code=failed.code, error_message=failed.message
        )
    return AlterUserScramCredentialsResult(user=user)


def check(
    user: str, deletions: Sequence[ScramCredentialDeletion], upsertions: Sequence[ScramCredentialUpsertion]
) -> None:
    """Check what is asked of one user, whatever is stored.

    Raises:
        ApiError: with Kafka's code and words.
    """
    if not user:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    # Kafka tells of the last that is wrong, upsertions after deletions.
    for row in reversed(upsertions):
        _check_mechanism(row.mechanism)
        minimum = ScramMechanism(row.mechanism).iterations_min
        if row.iterations > ITERATIONS_MAX:
            raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
        if row.iterations < minimum:
            raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    for deletion in deletions:
        _check_mechanism(deletion.mechanism)
    times = Counter([row.mechanism for row in deletions] + [row.mechanism for row in upsertions])
    if max(times.values()) > 1:
        sentence = "A user credential cannot be altered twice in the same request"
        raise ApiError(ErrorCode.DUPLICATE_RESOURCE, sentence)


def _check_mechanism(number: int) -> None:
    if number not in _KNOWN:
        raise ApiError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")


def _changed(changes: _Changes, stored: dict[str, str]) -> Mapping[str, str]:
    """The settings of a user after its changes."""
    configs = dict(stored)
    for row in changes.deletions:
        if configs.pop(ScramMechanism(row.mechanism).mechanism_name, None) is None:
            sentence = "Attempt to delete a user credential that does not exist"
            raise ApiError(ErrorCode.RESOURCE_NOT_FOUND, sentence)
    for upsertion in changes.upsertions:
        if not upsertion.salted_password:
            # Java makes no keys of nothing, and Kafka has no better word for it.
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
        mechanism = ScramMechanism(upsertion.mechanism)
        keys = keys_of(mechanism, upsertion.salted_password)
        credential = ScramCredential(upsertion.salt, *keys, upsertion.iterations)
        configs[mechanism.mechanism_name] = credential.encode()
    return configs
