"""Logins on connections that are encrypted: clients by each mechanism, renewals under load, and brokers."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from pkafka.clients.admin import Admin
from pkafka.clients.admin.scram import ScramUpsertion
from pkafka.clients.config import ProducerConfig
from pkafka.clients.errors import AuthenticationError
from pkafka.clients.producer import Producer
from pkafka.net.scram import ScramMechanism
from pkafka.server.config.listeners import SERVED_PROTOCOLS
from pkafka.testing import running_broker
from tests.certificates import Authority
from tests.interop.secured_kafka import PASSWORD, RENEWAL_MS, login
from tests.interop.secured_pkafka import sasl_settings
from tests.secured_cluster import SecuredCluster, check_replication
from tests.sockets import free_port
from tests.talk import wait_for
from tests.zookeeper import ZooKeeper

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif("SASL_SSL" not in SERVED_PROTOCOLS, reason="the broker has no TLS yet"),
]

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER")
LARGER_THAN_A_LOGIN: Final = 30_000


def stores(directory: Path) -> dict[str, object]:
    """Settings of a broker's certificate, and of whom it trusts."""
    authority = Authority()
    signed = authority.signed("broker", ["127.0.0.1"])
    directory.mkdir(parents=True)
    (directory / "broker.pem").write_bytes(signed.key_pem() + signed.chain_pem)
    (directory / "ca.pem").write_bytes(authority.pem)
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": directory / "broker.pem",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": directory / "ca.pem",
    }


def test_clients_by_each_mechanism_and_their_renewals(tmp_path: Path) -> None:
    settings = stores(tmp_path / "stores")
    ports = {"clients": free_port(), "renewing": free_port()}
    sasl = sasl_settings(ports, ",".join(MECHANISMS))
    protocols = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:SASL_SSL,RENEWING:SASL_SSL",
        "sasl.server.max.receive.size": LARGER_THAN_A_LOGIN - 10_000,
        "pkafka.workers": 2,
    }

    def keys(listener: str, login: Mapping[str, object]) -> dict[str, object]:
        trust = {key: settings[key] for key in ("ssl.truststore.type", "ssl.truststore.location")}
        address = {
            "bootstrap.servers": f"127.0.0.1:{ports[listener]}",
            "security.protocol": "SASL_SSL",
        }
        return {**address, **trust, **login}

    def lets_in(login: Mapping[str, object]) -> bool:
        try:
            with Admin(keys("clients", login)) as admin:
                return bool(admin.describe_cluster().brokers)
        except AuthenticationError:
            return False

    with running_broker(tmp_path / "broker", {**settings, **sasl, **protocols}) as broker:
        with Admin({"bootstrap.servers": broker.bootstrap}) as admin:
            upsertion = ScramUpsertion(
                user="alice", mechanism=ScramMechanism.SCRAM_SHA_256, password=PASSWORD.encode()
            )
            assert admin.alter_user_scram_credentials([upsertion]) == {"alice": None}
        for mechanism in MECHANISMS:
            wait_for(lambda mechanism=mechanism: lets_in(login(mechanism)))  # type: ignore[misc]
        for mechanism in MECHANISMS[:2]:
            assert not lets_in(login(mechanism, password="wrong"))
        renewing = {**keys("renewing", login("SCRAM-SHA-256")), "linger.ms": 5}
        with Producer(ProducerConfig.from_properties(renewing)) as producer:
            deadline_s = time.monotonic() + 3 * RENEWAL_MS / 1_000
            sent = []
            while time.monotonic() < deadline_s:
                sent.append(producer.send("t", value=b"x" * LARGER_THAN_A_LOGIN))
                time.sleep(0.005)
            assert [each.result(120).offset for each in sent] == list(range(len(sent)))
        assert "Traceback" not in broker.log_file.read_text()


@pytest.mark.nightly  # test_sasl_between_brokers.py and the tests of TLS between brokers have the halves of it
def test_brokers_that_log_in_at_each_other(zookeeper: ZooKeeper, tmp_path: Path) -> None:
    more = stores(tmp_path / "stores")
    with SecuredCluster(
        tmp_path, zookeeper.connect, "SCRAM-SHA-256", "ppp", more, protocol="SASL_SSL"
    ) as cluster:
        check_replication(cluster)
