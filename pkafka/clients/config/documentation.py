"""What the keys of clients do, one line each, and how much they matter; loaded only when a command prints them.

Importance is what Apache Kafka 3.9 says. A client's own line stands over that of all clients.
"""

from typing import Final, NamedTuple


class About(NamedTuple):
    """A key's importance (high, medium or low) and what it does."""

    importance: str
    text: str


ALL_CLIENTS: Final[dict[str, About]] = {
    "bootstrap.servers": About(
        "high", "Brokers to begin with, as host:port,...; the others are found from them."
    ),
    "client.id": About("medium", "What brokers call this client in their logs, metrics and quotas."),
    "connections.max.idle.ms": About(
        "medium", "Close a connection on which nothing happened for so long; -1: never."
    ),
    "default.api.timeout.ms": About(
        "medium", "How long a call may take, retries included, where nothing else is said."
    ),
    "interceptor.classes": About("low", "Classes, or names of classes, that see records on their way."),
    "metadata.max.age.ms": About(
        "low", "Ask for the cluster's metadata after so long, even when nothing went wrong."
    ),
    "metric.reporters": About("low", "Classes, or names of classes, that are told of every metric."),
    "metrics.num.samples": About("low", "How many windows a rate, an average or an extreme looks at."),
    "metrics.sample.window.ms": About("low", "How long such a window is."),
    "receive.buffer.bytes": About("medium", "Size of a socket's receive buffer; -1 leaves it to the system."),
    "reconnect.backoff.max.ms": About("low", "The longest pause before a broker is connected to again."),
    "reconnect.backoff.ms": About(
        "low", "The first pause before a broker is connected to again; doubles each time."
    ),
    "request.timeout.ms": About(
        "medium", "How long to wait for an answer before the request counts as failed."
    ),
    "retries": About("low", "How often a request that failed for a passing reason is sent again."),
    "retry.backoff.max.ms": About("low", "The longest pause before a request is sent again."),
    "retry.backoff.ms": About("low", "The first pause before a request is sent again; doubles each time."),
    "sasl.client.callback.handler.class": About("medium", "A class of Java: refused."),
    "sasl.jaas.config": About(
        "medium",
        "The login module with name and password, as MODULE required key=value...; (docs/security.md).",
    ),
    "sasl.login.callback.handler.class": About(
        "medium",
        "Where tokens of OAUTHBEARER come from: Kafka's two handlers by their names, or a class with a method token.",
    ),
    "sasl.login.class": About("medium", "A class of Java: refused."),
    "sasl.login.connect.timeout.ms": About(
        "low", "How long a connection to a token server may take; 10 s if not set."
    ),
    "sasl.login.read.timeout.ms": About(
        "low", "How long a token server may take to answer; 10 s if not set."
    ),
    "sasl.kerberos.service.name": About(
        "medium", "The first part of the brokers' Kerberos principal: kafka."
    ),
    "sasl.login.refresh.buffer.seconds": About("low", "A token is renewed at least so long before its end."),
    "sasl.login.refresh.min.period.seconds": About("low", "A token is not renewed earlier than this."),
    "sasl.login.refresh.window.factor": About(
        "low", "A token is renewed when this share of its life is over."
    ),
    "sasl.login.refresh.window.jitter": About("low", "Up to this share more, by chance."),
    "sasl.login.retry.backoff.max.ms": About(
        "low", "Accepted: a token server that fails is asked again with the next connection."
    ),
    "sasl.login.retry.backoff.ms": About(
        "low", "Accepted: a token server that fails is asked again with the next connection."
    ),
    "sasl.mechanism": About(
        "medium", "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or GSSAPI (Kerberos)."
    ),
    "sasl.oauthbearer.header.urlencode": About(
        "low", "Encode id and secret for the token server as in a URL, which RFC 6749 asks for."
    ),
    "sasl.oauthbearer.scope.claim.name": About("low", "Accepted: the broker reads the scope."),
    "sasl.oauthbearer.sub.claim.name": About(
        "low", "The claim that a token of unsecured login has its name in."
    ),
    "sasl.oauthbearer.token.endpoint.url": About("medium", "The token server, by http or https."),
    "security.protocol": About(
        "medium", "How to speak to brokers: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."
    ),
    "ssl.cipher.suites": About(
        "low", "Suites by their names of IANA, or OpenSSL's; empty: OpenSSL's choice."
    ),
    "ssl.enabled.protocols": About("medium", "Versions of TLS: TLSv1.2, TLSv1.3 or both."),
    "ssl.endpoint.identification.algorithm": About(
        "low", "https: the broker's certificate has to name the host connected to; empty: it has not."
    ),
    "ssl.engine.factory.class": About("low", "A class of Java: refused."),
    "ssl.key.password": About("high", "Of the private key, where it differs from the keystore's."),
    "ssl.keystore.certificate.chain": About("high", "This client's certificates as PEM text."),
    "ssl.keystore.key": About("high", "This client's private key as PEM text (PKCS#8)."),
    "ssl.keystore.location": About("high", "File with this client's key and certificates."),
    "ssl.keystore.password": About("high", "Of that file; with PEM there is none."),
    "ssl.keystore.type": About("medium", "JKS or PKCS12, which the file itself tells apart, or PEM."),
    "ssl.truststore.certificates": About("high", "Certificates to trust as PEM text."),
    "ssl.truststore.location": About(
        "high", "File with certificates to trust; without one, those of the system are trusted."
    ),
    "ssl.truststore.password": About("high", "Of that file; without it the file is not checked for changes."),
    "ssl.truststore.type": About("medium", "JKS or PKCS12, which the file itself tells apart, or PEM."),
    "send.buffer.bytes": About("medium", "Size of a socket's send buffer; -1 leaves it to the system."),
    "socket.connection.setup.timeout.max.ms": About(
        "medium", "The longest time that a connection may take to come up."
    ),
    "socket.connection.setup.timeout.ms": About(
        "medium", "How long a connection may take to come up at first; doubles with each failure."
    ),
}
PRODUCER: Final[dict[str, About]] = {
    "acks": About(
        "low",
        "Replicas that must have a record before it counts as sent: all in sync (all or -1), the leader (1), none (0).",
    ),
    "batch.size": About(
        "medium",
        "Records for one partition are gathered up to so many bytes; "
        "when it is left out, batches that have to wait may grow to 256 KiB.",
    ),
    "buffer.memory": About("high", "Bytes of records that may wait to be sent; then send waits."),
    "compression.gzip.level": About("medium", "Level of gzip: 1 to 9, or -1 for the codec's default."),
    "compression.lz4.level": About("medium", "Level of lz4."),
    "compression.type": About("high", "How batches are compressed."),
    "compression.zstd.level": About("medium", "Level of zstd."),
    "delivery.timeout.ms": About("medium", "How long after send a record is either acknowledged or failed."),
    "enable.idempotence": About(
        "low",
        "Each record is written once and in order, whatever is sent again; off where another key rules it out.",
    ),
    "key.serializer": About("high", "What makes bytes of keys: a class, its name, or an object."),
    "linger.ms": About("medium", "How long a batch waits for more records."),
    "max.block.ms": About("medium", "How long send may wait for metadata or for memory."),
    "max.in.flight.requests.per.connection": About("low", "Requests on their way to a broker at a time."),
    "max.request.size": About("medium", "The largest request, and the largest record, uncompressed."),
    "metadata.max.idle.ms": About(
        "low", "Forget a topic's metadata when nothing was sent to it for so long."
    ),
    "partitioner.adaptive.partitioning.enable": About(
        "low", "Records without a key go to brokers that keep up."
    ),
    "partitioner.availability.timeout.ms": About(
        "low", "Records without a key avoid a broker that has not been ready for so long; 0: never."
    ),
    "partitioner.class": About(
        "medium", "What chooses partitions: a class, its name, or an object; none: Kafka's rules."
    ),
    "partitioner.ignore.keys": About("medium", "Choose partitions as if records had no keys."),
    "retries": About("high", "How often a batch that failed for a passing reason is sent again."),
    "transaction.timeout.ms": About(
        "low", "A transaction that is open for longer is aborted by its coordinator."
    ),
    "transactional.id": About("low", "Name under which a producer's transactions go on after a restart."),
    "value.serializer": About("high", "What makes bytes of values: a class, its name, or an object."),
}
CONSUMER: Final[dict[str, About]] = {
    "allow.auto.create.topics": About(
        "medium", "Let brokers create a topic that is subscribed to and does not exist."
    ),
    "auto.commit.interval.ms": About("low", "How often positions are committed when that goes by itself."),
    "auto.offset.reset": About(
        "medium", "Where to begin without a committed offset, or with one out of range; none: fail."
    ),
    "check.crcs": About("low", "Check the checksum of each batch."),
    "client.id": About("low", "What brokers call this consumer; made of the group where it is not set."),
    "client.rack": About("low", "Rack of this consumer, to read from a replica that is near."),
    "enable.auto.commit": About("medium", "Commit positions from time to time; off without a group."),
    "exclude.internal.topics": About("medium", "Keep internal topics out of a subscription by pattern."),
    "fetch.max.bytes": About("medium", "Bytes of one answer of a broker, first batch excepted."),
    "fetch.max.wait.ms": About("low", "How long a broker may wait until it has fetch.min.bytes."),
    "fetch.min.bytes": About("high", "A broker waits until it has so many bytes."),
    "group.id": About("high", "The group of this consumer; none: nothing is committed."),
    "group.instance.id": About("medium", "Name of a static member, whose restart moves no partitions."),
    "group.protocol": About(
        "high", "How members find together; classic alone is supported, another is refused."
    ),
    "heartbeat.interval.ms": About("high", "How often a member says that it lives."),
    "internal.leave.group.on.close": About("low", "Leave the group when the consumer is closed."),
    "isolation.level": About(
        "medium", "read_committed hands out no record of an open or aborted transaction."
    ),
    "key.deserializer": About("high", "What makes keys of bytes: a class, its name, or an object."),
    "max.partition.fetch.bytes": About("high", "Bytes of one partition in one answer, first batch excepted."),
    "max.poll.interval.ms": About("medium", "A member that does not poll for longer leaves its group."),
    "max.poll.records": About("medium", "The most records that one poll hands out."),
    "partition.assignment.strategy": About(
        "medium", "Assignors that this member can work with, the first preferred."
    ),
    "session.timeout.ms": About("high", "A member that is not heard of for longer is out of its group."),
    "value.deserializer": About("high", "What makes values of bytes: a class, its name, or an object."),
}

WITHOUT_EFFECT: Final[dict[str, str]] = {
    "auto.include.jmx.reporter": "There is no JMX.",
    "bootstrap.controllers": "For KRaft, which is not here.",
    "client.dns.lookup": "All addresses of a name are tried, as use_all_dns_ips says.",
    "enable.metrics.push": "Clients push no metrics to brokers (KIP-714).",
    "group.remote.assignor": "For the consumer group protocol of KIP-848, which is not here.",
    "internal.throw.on.fetch.stable.offset.unsupported": "For Kafka Streams.",
    "metadata.recovery.strategy": "As rebootstrap says, bootstrap servers are asked when no known broker answers.",
    "metrics.recording.level": "All metrics are recorded.",
    "sasl.kerberos.*": "Tickets of a keytab are renewed as needed, and those of kinit by who runs kinit.",
    "sasl.oauthbearer.clock.skew.seconds": "Brokers check tokens, clients do not.",
    "sasl.oauthbearer.expected.*": "Brokers check tokens, clients do not.",
    "sasl.oauthbearer.jwks.*": "Brokers check tokens, clients do not.",
    "security.providers": "Names classes of Java, which cannot be loaded.",
    "ssl.keymanager.algorithm": "Names an algorithm of Java's.",
    "ssl.protocol": "The versions are those of ssl.enabled.protocols.",
    "ssl.provider": "Names a provider of Java's.",
    "ssl.secure.random.implementation": "Names an algorithm of Java's.",
    "ssl.trustmanager.algorithm": "Names an algorithm of Java's.",
}
"""Keys of Kafka's clients that are accepted and do nothing, and why; ``.*`` stands for any ending."""


def about(key: str, client: str) -> About:
    """What a key does for a client.

    Args:
        key: with dots.
        client: ``admin``, ``consumer`` or ``producer``.

    Raises:
        KeyError: the client has no such key.
    """
    own = {"consumer": CONSUMER, "producer": PRODUCER}.get(client, {})
    return own[key] if key in own else ALL_CLIENTS[key]
