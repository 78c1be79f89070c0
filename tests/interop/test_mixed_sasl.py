"""Brokers of Apache Kafka and of pkafka in one cluster that log in at each other."""

from pathlib import Path

import pytest

from tests.bearer_tokens import Keys, key_server
from tests.secured_cluster import SecuredCluster, by_token_server, check_replication
from tests.token_server import token_server
from tests.zookeeper import ZooKeeper

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]


@pytest.mark.nightly  # clusters of their own; tests/e2e/test_sasl_between_brokers.py has one in each change
@pytest.mark.parametrize(
    ("mechanism", "kinds"), [("PLAIN", "kpp"), ("SCRAM-SHA-512", "pkp"), ("OAUTHBEARER", "kpp")]
)
def test_records_are_replicated(
    kafka_classpath: str, zookeeper: ZooKeeper, tmp_path: Path, mechanism: str, kinds: str
) -> None:
    with SecuredCluster(tmp_path, zookeeper.connect, mechanism, kinds, {}) as cluster:
        check_replication(cluster)


@pytest.mark.nightly  # a cluster of its own
def test_a_server_gives_tokens_to_brokers_of_both_kinds(
    kafka_classpath: str, zookeeper: ZooKeeper, tmp_path: Path
) -> None:
    keys = Keys()
    with token_server() as server, key_server(keys) as key_sets:
        server.sign = keys.signed
        server.life_s = 5  # Apache Kafka asks for the next one a second before at the latest
        with SecuredCluster(
            tmp_path, zookeeper.connect, "OAUTHBEARER", "kpp", by_token_server(server.url, key_sets.url)
        ) as cluster:
            check_replication(cluster)
    assert len(server.asked) > 2
