"""SCRAM credentials of users (KIP-554): which ones there are, and setting and removing them.

A password stays here: what goes to the broker is salted and hashed, and nothing gives any of it back.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from pkafka.clients.admin.results import Outcome, outcome_of
from pkafka.clients.cluster import Cluster, To, controller_moved
from pkafka.errors import ApiError, ErrorCode
from pkafka.net.scram import ITERATIONS_DEFAULT, ScramMechanism, salted_password

_SALT_BYTES: Final = 24


class ScramCredentialInfo(NamedTuple):
    """What may be known of a credential."""

    mechanism: ScramMechanism
    iterations: int


@dataclass(frozen=True, kw_only=True)
class ScramUpsertion:
    """A credential to be set. ``salt`` is random when left out."""

    user: str
    mechanism: ScramMechanism
    password: bytes = field(repr=False)
    iterations: int = ITERATIONS_DEFAULT
    salt: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, kw_only=True)
class ScramDeletion:
    """A credential to be removed."""

    user: str
    mechanism: ScramMechanism


class ScramAdmin:
    """Reads and changes SCRAM credentials; a part of :class:`pkafka.clients.admin.Admin`."""

    cluster: Cluster

    def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None, *, timeout_ms: int | None = None
    ) -> dict[str, Outcome[tuple[ScramCredentialInfo, ...]]]:
        """The mechanisms that users have credentials of.

        Args:
            users: these; all that have any when left out.

        Returns:
            By user, in the broker's order; RESOURCE_NOT_FOUND for a user without credentials.

        Raises:
            ApiError: the broker refuses.
            UnsupportedApiError: the broker does not serve it.
        """
        from pkafka.protocol.messages import describe_user_scram_credentials as wire

        request = wire.DescribeUserScramCredentialsRequest()
        request.users = None if users is None else [wire.UserName(name=each) for each in users]
        response = self.cluster.request(
            request, wire.DescribeUserScramCredentialsResponse, timeout_ms=timeout_ms
        )
        if response.error_code:
            raise ApiError(ErrorCode(response.error_code), response.error_message)
        return {
            each.user: outcome_of(
                each.error_code,
                each.error_message,
                tuple(
                    ScramCredentialInfo(_mechanism(info.mechanism), info.iterations)
                    for info in each.credential_infos
                ),
            )
            for each in response.results
        }

    def alter_user_scram_credentials(
        self, changes: Sequence[ScramUpsertion | ScramDeletion], *, timeout_ms: int | None = None
    ) -> dict[str, Outcome[None]]:
        """Set and remove credentials; all that is asked of a user happens, or nothing of it.

        Returns:
            By user None, or why nothing was changed.

        Raises:
            UnsupportedApiError: the broker does not serve it.
        """
        from pkafka.protocol.messages import alter_user_scram_credentials as wire

        refused = _refused(changes)
        request = wire.AlterUserScramCredentialsRequest()
        for each in changes:
            if each.user in refused:
                continue
            if isinstance(each, ScramDeletion):
                request.deletions.append(
                    wire.ScramCredentialDeletion(name=each.user, mechanism=each.mechanism)
                )
                continue
            salt = os.urandom(_SALT_BYTES) if each.salt is None else each.salt
            request.upsertions.append(
                wire.ScramCredentialUpsertion(
                    name=each.user,
                    mechanism=each.mechanism,
                    iterations=each.iterations,
                    salt=salt,
                    salted_password=salted_password(each.mechanism, each.password, salt, each.iterations),
                )
            )
        outcomes: dict[str, Outcome[None]] = dict(refused)
        if request.deletions or request.upsertions:
            response = self.cluster.request(
                request,
                wire.AlterUserScramCredentialsResponse,
                to=To.CONTROLLER,
                timeout_ms=timeout_ms,
                try_again=lambda answer: controller_moved(row.error_code for row in answer.results),
            )
            for row in response.results:
                outcomes[row.user] = outcome_of(row.error_code, row.error_message, None)
        return outcomes


def _refused(changes: Iterable[ScramUpsertion | ScramDeletion]) -> dict[str, ApiError]:
    """What Kafka's client does not even ask for, by user: a salted password tells no longer that it was empty."""
    refused: dict[str, ApiError] = {}
    for each in changes:
        if not each.user:
            problem = ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
        elif each.mechanism is ScramMechanism.UNKNOWN:
            problem = ApiError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
        elif isinstance(each, ScramUpsertion) and not each.password:
            problem = ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Password must not be empty")
        elif isinstance(each, ScramUpsertion) and each.iterations < 1:
            problem = ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
        else:
            continue
        refused.setdefault(each.user, problem)
    return refused


def _mechanism(number: int) -> ScramMechanism:
    try:
        return ScramMechanism(number)
    except ValueError:
        return ScramMechanism.UNKNOWN
