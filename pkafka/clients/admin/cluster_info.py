"""The cluster itself: its brokers, its controller, and which requests each broker serves."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from pkafka.clients.admin.results import (
    BrokerInfo,
    ClusterDescription,
    FeatureDescription,
    FeatureUpdate,
    LevelRange,
)
from pkafka.clients.cluster import Cluster, To, controller_moved
from pkafka.clients.errors import ClientError, UnsupportedApiError
from pkafka.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from pkafka.protocol.messages.api_versions import ApiVersionsRequest

_CLIENT_NAME: Final = "pkafka"


class ClusterInfoAdmin:
    """Describes the cluster and its brokers; a part of :class:`pkafka.clients.admin.Admin`."""

    cluster: Cluster

    def describe_cluster(self) -> ClusterDescription:
        """The cluster's id, controller and live brokers; from metadata where the broker is older than 2.8."""
        from pkafka.protocol.messages import describe_cluster as wire

        try:
            response = self.cluster.request(wire.DescribeClusterRequest(), wire.DescribeClusterResponse)
        except UnsupportedApiError:
            view = self.cluster.refresh()
            brokers = tuple(BrokerInfo(*each) for each in view.brokers.values())
            return ClusterDescription(view.cluster_id, view.controller_id, brokers)
        if response.error_code:
            raise ApiError(ErrorCode(response.error_code), response.error_message)
        brokers = tuple(
            BrokerInfo(each.broker_id, each.host, each.port, each.rack) for each in response.brokers
        )
        return ClusterDescription(response.cluster_id, response.controller_id, brokers)

    def describe_features(self) -> FeatureDescription:
        """The features that a broker supports and the cluster has finalized (KIP-584)."""
        from pkafka.protocol.messages import api_versions as wire

        answer = self.cluster.request(_api_versions_request(), wire.ApiVersionsResponse)
        if answer.error_code:
            raise ApiError(ErrorCode(answer.error_code))
        return FeatureDescription(
            {each.name: LevelRange(each.min_version, each.max_version) for each in answer.supported_features},
            {
                each.name: LevelRange(each.min_version_level, each.max_version_level)
                for each in answer.finalized_features
            },
            answer.finalized_features_epoch if answer.finalized_features_epoch >= 0 else None,
        )

    def update_features(
        self, updates: Iterable[FeatureUpdate], *, validate_only: bool = False
    ) -> dict[str, ApiError | None]:
        """Finalize features at other levels, or only check whether that would work.

        Returns:
            For every feature None, or why it was not changed.

        Raises:
            ApiError: none of them was looked at.
            UnsupportedApiError: the broker is older than 2.7, or than 3.3 for anything but an upgrade.
        """
        from pkafka.protocol.messages import update_features as wire

        wanted = {each.feature: each for each in updates}
        request = wire.UpdateFeaturesRequest(
            timeout_ms=self.cluster.config.default_api_timeout_ms,
            feature_updates=[
                wire.FeatureUpdateKey(
                    feature=each.feature,
                    max_version_level=each.max_level,
                    upgrade_type=each.kind.value,
                )
                for each in wanted.values()
            ],
            validate_only=validate_only,
        )
        answer = self.cluster.request(
            request,
            wire.UpdateFeaturesResponse,
            to=To.CONTROLLER,
            try_again=lambda response: controller_moved([response.error_code]),
        )
        if answer.error_code:
            raise ApiError(ErrorCode(answer.error_code), answer.error_message)
        failed = {
            each.feature: ApiError(ErrorCode(each.error_code), each.error_message)
            for each in answer.results
            if each.error_code
        }
        return {feature: failed.get(feature) for feature in wanted}

    def unregister_broker(self, broker: int) -> None:
        """Let a KRaft cluster forget a broker that is gone for good.

        Raises:
            ApiError: it is not registered, or still alive.
            UnsupportedApiError: the cluster is one in ZooKeeper mode, where brokers are forgotten by themselves.
        """
        from pkafka.protocol.messages import unregister_broker as wire

        answer = self.cluster.request(
            wire.UnregisterBrokerRequest(broker_id=broker), wire.UnregisterBrokerResponse
        )
        if answer.error_code:
            raise ApiError(ErrorCode(answer.error_code), answer.error_message)

    def api_versions(self) -> dict[BrokerInfo, dict[int, tuple[int, int]] | ClientError]:
        """Per live broker the lowest and highest version of every request that it serves."""
        from pkafka.protocol.messages import api_versions as wire

        view = self.cluster.refresh()
        messages = {node: _api_versions_request() for node in view.brokers}
        answers = self.cluster.request_each(messages, wire.ApiVersionsResponse)
        found: dict[BrokerInfo, dict[int, tuple[int, int]] | ClientError] = {}
        for node, answer in answers.items():
            broker = BrokerInfo(*view.brokers[node])
            if isinstance(answer, ClientError):
                found[broker] = answer
            else:
                found[broker] = {
                    each.api_key: (each.min_version, each.max_version) for each in answer.api_keys
                }
        return found


def _api_versions_request() -> "ApiVersionsRequest":
    import pkafka
    from pkafka.protocol.messages.api_versions import ApiVersionsRequest

    return ApiVersionsRequest(client_software_name=_CLIENT_NAME, client_software_version=pkafka.__version__)
