"""Delegation tokens (KIP-48, KIP-373): made, described, renewed and ended."""

import base64
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from pkafka.clients.cluster import Cluster
from pkafka.errors import ApiError, ErrorCode
from pkafka.security.principal import Principal

if TYPE_CHECKING:
    from pkafka.protocol.messages.describe_delegation_token import DescribedDelegationToken


@dataclass(frozen=True, kw_only=True)
class DelegationToken:
    """A token, by which clients log in as its owner: with its id as the name, and its HMAC as the password."""

    token_id: str
    hmac: bytes = field(repr=False)
    owner: Principal
    requester: Principal
    """Who had it made; the owner itself where the broker is too old to say."""
    renewers: tuple[Principal, ...]
    """Who may renew and end it, beside its owner."""
    issued_ms: int
    expires_ms: int
    """When it ends unless it is renewed."""
    expires_latest_ms: int
    """Until when it can be renewed."""

    @property
    def password(self) -> str:
        """The HMAC, as ``password`` in ``sasl.jaas.config``."""
        return base64.b64encode(self.hmac).decode()


class DelegationTokensAdmin:
    """Makes and changes delegation tokens; a part of :class:`pkafka.clients.admin.Admin`.

    Brokers serve this only to clients that have logged in, or have a certificate, and that did not log in by a token.
    """

    cluster: Cluster

    def create_delegation_token(
        self,
        *,
        owner: Principal | None = None,
        renewers: Iterable[Principal] = (),
        lifetime_max_ms: int = -1,
        timeout_ms: int | None = None,
    ) -> DelegationToken:
        """Have a token made.

        Args:
            owner: whom it lets in; the client's own user when left out.
            renewers: who may renew and end it, beside its owner.
            lifetime_max_ms: how long it can be renewed; the broker's limit when it is longer or negative.

        Raises:
            ApiError: the broker refuses.
            UnsupportedApiError: the broker does not serve it, or is too old for another owner.
        """
        from pkafka.protocol.messages import create_delegation_token as wire

        wanted = tuple(renewers)
        request = wire.CreateDelegationTokenRequest(
            renewers=[
                wire.CreatableRenewers(principal_type=one.type, principal_name=one.name) for one in wanted
            ],
            max_lifetime_ms=lifetime_max_ms,
        )
        if owner is not None:
            request.owner_principal_type, request.owner_principal_name = owner
        made = self.cluster.request(request, wire.CreateDelegationTokenResponse, timeout_ms=timeout_ms)
        _check(made)
        who = Principal(made.principal_type, made.principal_name)
        requester = Principal(made.token_requester_principal_type, made.token_requester_principal_name)
        return DelegationToken(
            token_id=made.token_id,
            hmac=made.hmac,
            owner=who,
            requester=requester if requester.name else who,
            renewers=wanted,
            issued_ms=made.issue_timestamp_ms,
            expires_ms=made.expiry_timestamp_ms,
            expires_latest_ms=made.max_timestamp_ms,
        )

    def describe_delegation_tokens(
        self, owners: Iterable[Principal] | None = None, *, timeout_ms: int | None = None
    ) -> list[DelegationToken]:
        """The tokens that the client may see.

        Args:
            owners: the tokens that these own, had made or may renew; all when left out, none when there is none.

        Raises:
            ApiError: the broker refuses.
            UnsupportedApiError: the broker does not serve it.
        """
        from pkafka.protocol.messages import describe_delegation_token as wire

        request = wire.DescribeDelegationTokenRequest()
        request.owners = None
        if owners is not None:
            request.owners = [
                wire.DescribeDelegationTokenOwner(principal_type=one.type, principal_name=one.name)
                for one in owners
            ]
        response = self.cluster.request(request, wire.DescribeDelegationTokenResponse, timeout_ms=timeout_ms)
        _check(response)
        return [_token(one) for one in response.tokens]

    def renew_delegation_token(
        self, hmac: bytes, *, period_ms: int = -1, timeout_ms: int | None = None
    ) -> int:
        """Have a token last for a period from now on, as far as it can be renewed.

        Args:
            hmac: of the token.
            period_ms: the broker's own when it is negative.

        Returns:
            When the token ends now, in milliseconds since the epoch.

        Raises:
            ApiError: the broker refuses.
            UnsupportedApiError: the broker does not serve it.
        """
        from pkafka.protocol.messages import renew_delegation_token as wire

        request = wire.RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
        response = self.cluster.request(request, wire.RenewDelegationTokenResponse, timeout_ms=timeout_ms)
        _check(response)
        return response.expiry_timestamp_ms

    def expire_delegation_token(
        self, hmac: bytes, *, period_ms: int = -1, timeout_ms: int | None = None
    ) -> int:
        """Have a token end.

        Args:
            hmac: of the token.
            period_ms: after this time; at once when it is negative.

        Returns:
            When the token ends, in milliseconds since the epoch.

        Raises:
            ApiError: the broker refuses.
            UnsupportedApiError: the broker does not serve it.
        """
        from pkafka.protocol.messages import expire_delegation_token as wire

        request = wire.ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
        response = self.cluster.request(request, wire.ExpireDelegationTokenResponse, timeout_ms=timeout_ms)
        _check(response)
        return response.expiry_timestamp_ms


class _Answer(Protocol):
    error_code: int


def _check(response: _Answer) -> None:
    if response.error_code:
        raise ApiError(ErrorCode(response.error_code))


def _token(one: "DescribedDelegationToken") -> DelegationToken:
    owner = Principal(one.principal_type, one.principal_name)
    requester = Principal(one.token_requester_principal_type, one.token_requester_principal_name)
    return DelegationToken(
        token_id=one.token_id,
        hmac=one.hmac,
        owner=owner,
        requester=requester if requester.name else owner,
        renewers=tuple(Principal(each.principal_type, each.principal_name) for each in one.renewers),
        issued_ms=one.issue_timestamp,
        expires_ms=one.expiry_timestamp,
        expires_latest_ms=one.max_timestamp,
    )
