"""The admin client: what an operator does to a cluster over the protocol. Thread-safe, synchronous.

Calls answer per item, with the error of an item in its place (``results.Outcome``); what hits the whole call
(no broker, time-out) is raised as a ``ClientError``.
"""

from pkafka.clients.admin.acls import AclsAdmin
from pkafka.clients.admin.client_quotas import ClientQuotasAdmin
from pkafka.clients.admin.cluster_info import ClusterInfoAdmin
from pkafka.clients.admin.configs import ConfigsAdmin
from pkafka.clients.admin.connected import ConnectedAdmin
from pkafka.clients.admin.delegation_tokens import DelegationTokensAdmin
from pkafka.clients.admin.groups import GroupsAdmin
from pkafka.clients.admin.partitions import PartitionsAdmin
from pkafka.clients.admin.replicas import ReplicasAdmin
from pkafka.clients.admin.scram import ScramAdmin
from pkafka.clients.admin.topics import TopicsAdmin
from pkafka.clients.admin.transactions import TransactionsAdmin


class Admin(
    TopicsAdmin,
    ConfigsAdmin,
    PartitionsAdmin,
    ReplicasAdmin,
    GroupsAdmin,
    ClusterInfoAdmin,
    ClientQuotasAdmin,
    ScramAdmin,
    AclsAdmin,
    DelegationTokensAdmin,
    TransactionsAdmin,
    ConnectedAdmin,
):
    """All that an operator does to a cluster; it is made and closed as :class:`ConnectedAdmin` says."""
