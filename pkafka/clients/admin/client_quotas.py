"""Client quotas: of users, client ids, pairs of both, and of addresses that connect (KIP-546, KIP-612)."""

from collections.abc import Collection, Iterable, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from pkafka.clients.admin.results import Outcome, outcome_of
from pkafka.clients.cluster import Cluster
from pkafka.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from pkafka.protocol.messages.alter_client_quotas import AlterClientQuotasResponseEntityData
    from pkafka.protocol.messages.describe_client_quotas import EntityData

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

QuotaEntity: TypeAlias = frozenset[tuple[str, str | None]]
"""What a quota belongs to: a name for each of its types (:data:`USER` ...); no name is the default of that type."""


class QuotaMatch(IntEnum):
    """Which names of a type a filter takes."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2
    """Any name, and the default."""


class QuotaFilter(NamedTuple):
    """One type that an entity has to have. ``name`` counts with EXACT alone."""

    entity_type: str
    match: QuotaMatch = QuotaMatch.SPECIFIED
    name: str | None = None


def quota_entity(*, user: str | None = "", client_id: str | None = "", ip: str | None = "") -> QuotaEntity:
    """An entity of the names given; None is the default of a type, and an empty name leaves the type out."""
    named = ((USER, user), (CLIENT_ID, client_id), (IP, ip))
    return frozenset((entity_type, name) for entity_type, name in named if name != "")


class ClientQuotasAdmin:
    """Reads and changes client quotas; a part of :class:`pkafka.clients.admin.Admin`."""

    cluster: Cluster

    def describe_client_quotas(
        self,
        filters: Collection[QuotaFilter] = (),
        *,
        strict: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[QuotaEntity, dict[str, float]]:
        """The quotas that are set, by entity and key.

        Args:
            filters: every one has to match; all entities when left out.
            strict: only entities that have no other types than those of ``filters``.

        Raises:
            ApiError: the broker refuses.
            UnsupportedApiError: the broker does not serve it.
        """
        from pkafka.protocol.messages import describe_client_quotas as wire

        request = wire.DescribeClientQuotasRequest(strict=strict)
        request.components = [
            wire.ComponentData(
                entity_type=each.entity_type,
                match_type=each.match,
                match=each.name if each.match is QuotaMatch.EXACT else None,
            )
            for each in filters
        ]
        response = self.cluster.request(request, wire.DescribeClientQuotasResponse, timeout_ms=timeout_ms)
        if response.error_code:
            raise ApiError(ErrorCode(response.error_code), response.error_message)
        return {
            _entity(each.entity): {value.key: value.value for value in each.values}
            for each in response.entries or ()
        }

    def alter_client_quotas(
        self,
        changes: Mapping[QuotaEntity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[QuotaEntity, Outcome[None]]:
        """Set quotas, or with None remove them; the other keys of an entity stay as they are.

        Args:
            changes: by entity and key.
            validate_only: let the broker check, and change nothing.

        Raises:
            UnsupportedApiError: the broker does not serve it.
        """
        from pkafka.protocol.messages import alter_client_quotas as wire

        request = wire.AlterClientQuotasRequest(validate_only=validate_only)
        for entity, values in changes.items():
            request.entries.append(
                wire.AlterClientQuotasRequestEntryData(
                    entity=[
                        wire.AlterClientQuotasRequestEntityData(entity_type=kind, entity_name=name)
                        for kind, name in sorted(entity, key=lambda each: each[0])
                    ],
                    ops=[
                        wire.OpData(key=key, value=value or 0.0, remove=value is None)
                        for key, value in values.items()
                    ],
                )
            )
        response = self.cluster.request(request, wire.AlterClientQuotasResponse, timeout_ms=timeout_ms)
        return {
            _entity(each.entity): outcome_of(each.error_code, each.error_message, None)
            for each in response.entries
        }


def _entity(rows: "Iterable[EntityData | AlterClientQuotasResponseEntityData]") -> QuotaEntity:
    return frozenset((each.entity_type, each.entity_name) for each in rows)
