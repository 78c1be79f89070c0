"""UpdateFeatures (key 57, v0-1): changes finalized features (KIP-584); served by the control process.

v1 kinds of upgrade, validate only (KIP-778)

A broker of 3.9 in ZooKeeper mode supports no feature, so none can be finalized: every change is refused in Kafka's
words, also when it is only to be validated.
"""

from typing import Final

from pkafka.errors import ApiError, ErrorCode
from pkafka.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from pkafka.security.acl import Operation
from pkafka.server.ports.controller_context import ControllerContext
from pkafka.server.security.rights import may_in_cluster

UPGRADE: Final = 1
SAFE_DOWNGRADE: Final = 2
UNSAFE_DOWNGRADE: Final = 3
_FIRST_VERSION_WITH_KINDS: Final = 1


async def handle(
    ctx: ControllerContext, request: UpdateFeaturesRequest, version: int
) -> UpdateFeaturesResponse:
    """Say for each feature why it is not changed; when one is named twice, its first change counts."""
    if not may_in_cluster(ctx.rights, Operation.ALTER):
        refused = ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return UpdateFeaturesResponse(error_code=refused.code, error_message=refused.message)
    if not ctx.controller.is_active:
        refused = ApiError(ErrorCode.NOT_CONTROLLER)
        return UpdateFeaturesResponse(error_code=refused.code, error_message=refused.message)
    results: dict[str, UpdatableFeatureResult] = {}
    for update in request.feature_updates:
        reason = refusal(update, _kind(update, version))
        results.setdefault(
            update.feature,
            UpdatableFeatureResult(
                feature=update.feature, error_code=ErrorCode.INVALID_REQUEST, error_message=reason
            ),
        )
    return UpdateFeaturesResponse(
        error_message=None, results=[results[feature] for feature in sorted(results)]
    )


def _kind(update: FeatureUpdateKey, version: int) -> int:
    if version >= _FIRST_VERSION_WITH_KINDS:
        return update.upgrade_type
    return SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE


def refusal(update: FeatureUpdateKey, kind: int) -> str:
    """Say why a broker that knows no feature refuses a change.

    Args:
        update: the change.
        kind: of upgrade, as version 1 of the request numbers it.
    """
    if not update.feature:
        return "Feature name can not be empty."
    if kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return "Received unknown upgrade type."
    if update.max_version_level >= 1:
        return "Could not apply finalized feature update because the provided feature is not supported."
    if kind == UPGRADE:
        return (
            f"Can not provide versionLevel: {update.max_version_level} less than 1 without setting the "
            "SAFE downgradeType in the request."
        )
    return "Can not delete non-existing finalized feature."
