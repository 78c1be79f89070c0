"""Clusters whose brokers log in at each other, of either kind, and what they are to show."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.cluster import Cluster
from tests.interop.side_by_side import pk
from tests.sockets import free_port
from tests.talk import wait_for

_PACKAGE: Final = "org.apache.kafka.common.security"
_PASSWORD: Final = "a,b=c"
_OWN: Final = f'username="admin" password="{_PASSWORD}"'
RENEWAL_MS: Final = 1_500


def between_brokers(mechanism: str, protocol: str = "SASL_PLAINTEXT") -> dict[str, object]:
    """Settings by which all brokers of a cluster log in by one mechanism, again and again."""
    prefix = f"listener.name.{protocol.lower()}"
    return {
        "security.inter.broker.protocol": protocol,
        "sasl.mechanism.inter.broker.protocol": mechanism,
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        f"{prefix}.plain.sasl.jaas.config": (
            f'{_PACKAGE}.plain.PlainLoginModule required {_OWN} user_admin="{_PASSWORD}";'
        ),
        f"{prefix}.scram-sha-256.sasl.jaas.config": f"{_PACKAGE}.scram.ScramLoginModule required {_OWN};",
        f"{prefix}.scram-sha-512.sasl.jaas.config": f"{_PACKAGE}.scram.ScramLoginModule required {_OWN};",
        f"{prefix}.oauthbearer.sasl.jaas.config": (
            f"{_PACKAGE}.oauthbearer.OAuthBearerLoginModule required"
            ' unsecuredLoginStringClaim_sub="admin" unsecuredLoginLifetimeSeconds="30";'
        ),
        "connections.max.reauth.ms": RENEWAL_MS,
    }


def by_token_server(url: str, keys_url: str) -> dict[str, object]:
    """Settings, beside :func:`between_brokers`, by which a server gives all brokers their tokens.

    Args:
        url: of the token server.
        keys_url: of the keys by which its tokens are signed.
    """
    prefix, package = "listener.name.sasl_plaintext.oauthbearer.sasl", f"{_PACKAGE}.oauthbearer"
    return {
        f"{prefix}.jaas.config": (
            f'{package}.OAuthBearerLoginModule required clientId="broker" clientSecret="of-the-broker";'
        ),
        f"{prefix}.login.callback.handler.class": f"{package}.OAuthBearerLoginCallbackHandler",
        f"{prefix}.server.callback.handler.class": f"{package}.OAuthBearerValidatorCallbackHandler",
        "sasl.oauthbearer.token.endpoint.url": url,
        "sasl.oauthbearer.jwks.endpoint.url": keys_url,
        "sasl.login.refresh.buffer.seconds": 0,
        "sasl.login.refresh.min.period.seconds": 0,
    }


class SecuredCluster(Cluster):
    """Brokers that log in at each other; clients come by a listener where they need not."""

    def __init__(
        self,
        directory: Path,
        zookeeper: str,
        mechanism: str,
        kinds: str,
        more: Mapping[str, object],
        *,
        protocol: str = "SASL_PLAINTEXT",
    ) -> None:
        self._ports = ports = [free_port() for _ in kinds]
        super().__init__(
            directory,
            zookeeper,
            # Nobody is missed because the machine stands still.
            overrides={
                **between_brokers(mechanism, protocol),
                "zookeeper.session.timeout.ms": 10_000,
                **more,
            },
            overrides_of=lambda number: {
                "listeners": f"PLAINTEXT://127.0.0.1:0,{protocol}://127.0.0.1:{ports[number]}"
            },
            kinds=kinds,
        )
        if mechanism.startswith("SCRAM"):
            # Before any broker runs: the first one that starts has to log in at itself and at others.
            self.ask_store(lambda store: store.exists("/"))  # which makes the chroot
            credential = f"{mechanism}=[password={_PASSWORD}]"
            connect = ("--zookeeper", self.zookeeper_connect)
            pk("configs", *connect, "--alter", "--user", "admin", "--add-config", credential)

    def secured_port(self, number: int) -> int:
        """Where a broker is reached by others."""
        return self._ports[number]


def check_replication(cluster: SecuredCluster) -> None:
    """Check that records are replicated, over the ends of several sessions, and that all replicas are the same."""
    cluster.create_topic("t", 3)
    with cluster.producer(acks="all") as producer:
        deadline_s, sent = time.monotonic() + 3 * RENEWAL_MS / 1_000, 0
        while time.monotonic() < deadline_s:
            results = [producer.send("t", b"x" * 100, partition=number % 3) for number in range(30)]
            for result in results:
                result.result(120)
            sent += len(results)
    assert sent
    for partition in range(3):
        wait_for(lambda partition=partition: cluster.same_logs("t", partition), what="the same logs")  # type: ignore[misc]
    everybody = list(range(len(cluster.brokers)))
    wait_for(lambda: all(isr == everybody for _, isr in cluster.leadership("t").values()), what="all in sync")
    for broker in cluster.brokers:
        said = broker.log_file.read_text(errors="replace")
        assert "Failed re-authentication" not in said
        assert "is lost" not in said
        assert _PASSWORD not in said.replace("Password: [hidden]", "")
