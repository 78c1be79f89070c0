"""Brokers that log in at each other: the controller's requests, followers' fetches, and renewals of all sessions."""

import base64
from pathlib import Path

import pytest

from tests.bearer_tokens import Keys, key_server
from tests.secured_cluster import SecuredCluster, between_brokers, by_token_server, check_replication
from tests.talk import wait_for
from tests.token_server import token_server
from tests.zookeeper import ZooKeeper

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


@pytest.mark.parametrize(
    "mechanism",
    # one way is as the other
    ["SCRAM-SHA-256", *(pytest.param(name, marks=pytest.mark.nightly) for name in ("PLAIN", "OAUTHBEARER"))],
)
def test_records_are_replicated(zookeeper: ZooKeeper, tmp_path: Path, mechanism: str) -> None:
    with SecuredCluster(tmp_path, zookeeper.connect, mechanism, "ppp", {}) as cluster:
        check_replication(cluster)


@pytest.mark.parametrize(
    "life_s",
    [
        600,
        # Tokens end while records are on their way, too; where the machine stands still for a second, one has ended
        # before the next has come.
        pytest.param(3, marks=pytest.mark.nightly),
    ],
)
def test_brokers_log_in_by_tokens_that_a_server_gives(
    zookeeper: ZooKeeper, tmp_path: Path, life_s: int
) -> None:
    keys = Keys()
    with token_server() as server, key_server(keys) as key_sets:
        server.sign = keys.signed
        server.life_s = life_s
        with SecuredCluster(
            tmp_path, zookeeper.connect, "OAUTHBEARER", "ppp", by_token_server(server.url, key_sets.url)
        ) as cluster:
            check_replication(cluster)
        asked = set(server.asked)
    assert asked == {"Basic " + base64.b64encode(b"broker:of-the-broker").decode()}


@pytest.mark.nightly  # what a wrong password comes to is shown by tests/unit/server/cluster/test_broker_login.py too
def test_a_broker_with_another_password_gets_nothing_and_says_so(
    zookeeper: ZooKeeper, tmp_path: Path
) -> None:
    key = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
    text = str(between_brokers("PLAIN")[key])
    cluster = SecuredCluster(
        tmp_path, zookeeper.connect, "PLAIN", "pp", {"offsets.topic.replication.factor": 1}
    )
    cluster.brokers[1] = cluster.make_broker(
        "pkafka",
        tmp_path / "broker-1",
        {**between_brokers("PLAIN"), "zookeeper.connect": cluster.zookeeper_connect, "broker.id": 1}
        | {
            "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
            key: text.replace('user_admin="a,b=c"', 'user_admin="x"'),
        },
    )
    first = cluster.brokers[0]
    first.start()
    try:
        with pytest.raises(Exception, match="not ready"):
            cluster.brokers[1].start()
        wait_for(lambda: "does not let this one in as admin" in first.log_file.read_text())
    finally:
        cluster.stop()
