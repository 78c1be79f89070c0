"""The cluster itself: its brokers, its controller, and which requests each broker serves."""

from typing import Final

from pkafka.clients.admin.results import BrokerInfo, ClusterDescription
from pkafka.clients.cluster import Cluster
from pkafka.clients.errors import ClientError, UnsupportedApiError
from pkafka.errors import ApiError, ErrorCode

_CLIENT_NAME: Final = "pkafka"


class ClusterInfoAdmin:
    """See the module; a part of :class:`pkafka.clients.admin.Admin`."""

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

    def api_versions(self) -> dict[BrokerInfo, dict[int, tuple[int, int]] | ClientError]:
        """Per live broker the lowest and highest version of every request that it serves."""
        import pkafka
        from pkafka.protocol.messages import api_versions as wire

        view = self.cluster.refresh()
        messages = {}
        for node in view.brokers:
            messages[node] = wire.ApiVersionsRequest()
            messages[node].client_software_name = _CLIENT_NAME
            messages[node].client_software_version = pkafka.__version__
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
