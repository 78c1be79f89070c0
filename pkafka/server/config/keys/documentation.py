"""What the configuration keys do, one line each; loaded only when it is asked for."""

from typing import Final

BROKER_DOCUMENTATION: Final[dict[str, str]] = {
    "advertised.listeners": (
        "The addresses that clients and other brokers are told to connect to; those of listeners when not set."
    ),
    "alter.config.policy.class.name": (
        "A class of Python (package.module.Class) that may refuse changes of settings; see pkafka.server.policies."
    ),
    "alter.log.dirs.replication.quota.window.num": (
        "Over how many windows the rate of moves between log directories is measured."
    ),
    "alter.log.dirs.replication.quota.window.size.seconds": "How long such a window is.",
    "authorizer.class.name": (
        "What decides what clients may do: kafka.security.authorizer.AclAuthorizer (ACLs), or a class of Python;"
        " see pkafka.server.security.authorizer. Without it every client may do everything."
    ),
    "auto.create.topics.enable": "Create a topic when a client asks for the metadata of one that does not exist.",
    "auto.leader.rebalance.enable": (
        "Let the controller move leadership back to preferred replicas from time to time."
    ),
    "broker.id": (
        "The number of this broker, unique in its cluster; -1 lets the broker choose one above reserved.broker.max.id."
    ),
    "broker.id.generation.enable": "Allow generated broker ids.",
    "broker.rack": "The rack or zone of this broker, for spreading replicas and reading from near ones.",
    "client.quota.callback.class": "A class of Java that decides on quotas; none can be loaded, so a value is refused.",
    "compression.gzip.level": (
        "Level used where the broker compresses with gzip: 1 to 9, or -1 for the codec's default."
    ),
    "compression.lz4.level": "Level used where the broker compresses with lz4.",
    "compression.type": "How topics store batches: in one codec, uncompressed, or as the producer sent them.",
    "compression.zstd.level": "Level used where the broker compresses with zstd.",
    "connection.failed.authentication.delay.ms": "How long a client waits for the news that its login failed.",
    "connections.max.idle.ms": "Close a connection on which nothing happened for so long.",
    "connections.max.reauth.ms": (
        "How long a login counts; the client logs in again before, or is disconnected. 0: as long as the connection."
    ),
    "control.plane.listener.name": "The listener that only the controller's requests use.",
    "controlled.shutdown.enable": "Move leaders to other brokers before stopping.",
    "controlled.shutdown.max.retries": "How often to try the controlled shutdown, the first time included.",
    "controlled.shutdown.retry.backoff.ms": "Pause between two tries of the controlled shutdown.",
    "controller.socket.timeout.ms": (
        "How long controller and brokers may take to connect, and the controller to answer to another ISR."
    ),
    "controller.quota.window.num": "For how many windows a client may create and delete partitions without a pause.",
    "controller.quota.window.size.seconds": "How long such a window is.",
    "default.replication.factor": "Replicas of a topic whose creator does not say.",
    "delegation.token.expiry.check.interval.ms": "How often the controller removes expired delegation tokens.",
    "delegation.token.expiry.time.ms": "How long a delegation token lasts that is not renewed.",
    "delegation.token.master.key": "The old name of delegation.token.secret.key.",
    "delegation.token.max.lifetime.ms": "Until when a delegation token can be renewed.",
    "delegation.token.secret.key": (
        "Of which delegation tokens are made, the same at all brokers of a cluster. Without it there are none."
    ),
    "create.topic.policy.class.name": (
        "A class of Python (package.module.Class) that may refuse new topics; see pkafka.server.policies."
    ),
    "delete.topic.enable": "Allow topics to be deleted.",
    "fetch.max.bytes": "The most bytes in one answer to a fetch, first batch excepted.",
    "group.initial.rebalance.delay.ms": "How long a new group waits for more members before its first rebalance.",
    "group.max.session.timeout.ms": "The longest session timeout that a group member may ask for.",
    "group.max.size": "The most members of one group.",
    "group.min.session.timeout.ms": "The shortest session timeout that a group member may ask for.",
    "inter.broker.listener.name": "The listener over which brokers talk to each other.",
    "leader.imbalance.check.interval.seconds": "How often the controller looks for leaders that are not preferred.",
    "leader.imbalance.per.broker.percentage": (
        "Share of not preferred leaders on a broker above which leadership moves back."
    ),
    "listener.security.protocol.map": "The security protocol of each listener name, as NAME:PROTOCOL pairs.",
    "listeners": "The addresses to listen on, as NAME://host:port; an empty host means every interface.",
    "log.cleaner.backoff.ms": "Pause of the cleaner when nothing needs cleaning.",
    "log.cleaner.dedupe.buffer.size": "Memory for the cleaner's maps of keys, in bytes over all its threads.",
    "log.cleaner.delete.retention.ms": "How long a compacted topic keeps the marks of deleted keys.",
    "log.cleaner.enable": "Compact topics whose cleanup policy says so.",
    "log.cleaner.io.buffer.load.factor": "How full the cleaner's map of keys may become.",
    "log.cleaner.io.buffer.size": "Memory for the cleaner's reads and writes, in bytes over all its threads.",
    "log.cleaner.io.max.bytes.per.second": "The most bytes that the cleaner reads and writes in a second.",
    "log.cleaner.max.compaction.lag.ms": "The longest time that a record may stay uncompacted.",
    "log.cleaner.min.cleanable.ratio": "Share of uncompacted bytes in a log above which it is compacted.",
    "log.cleaner.min.compaction.lag.ms": "The shortest time that a record stays uncompacted.",
    "log.cleaner.threads": "How many logs are compacted at the same time; they share one processor.",
    "log.cleanup.policy": "What happens to old segments: delete, compact, or both.",
    "log.dir": "The data directory; log.dirs goes before it.",
    "log.dirs": "The data directories, separated by commas.",
    "log.flush.interval.messages": "Sync a log to disk after so many records.",
    "log.flush.interval.ms": "Sync a log to disk after so much time.",
    "log.flush.offset.checkpoint.interval.ms": "How often the recovery points are written down.",
    "log.flush.scheduler.interval.ms": "How often to look for logs that are due to be synced.",
    "log.flush.start.offset.checkpoint.interval.ms": "How often the start offsets of logs are written down.",
    "log.index.interval.bytes": "Bytes of a log between two entries of its index.",
    "log.index.size.max.bytes": "The size at which an index is full and its segment is rolled.",
    "log.initial.task.delay.ms": "How long after the start the background work on logs begins.",
    "log.local.retention.bytes": (
        "How many bytes of a tiered partition stay on this disk; -2: as log.retention.bytes."
    ),
    "log.local.retention.ms": "How long segments of a tiered partition stay on this disk; -2: as log.retention.ms.",
    "log.message.downconversion.enable": "Convert batches to old formats for old consumers.",
    "log.message.format.version": "Accepted for old files; records are always written in the format of version 2.",
    "log.message.timestamp.after.max.ms": "How far a record's time may lie after the broker's clock.",
    "log.message.timestamp.before.max.ms": "How far a record's time may lie before the broker's clock.",
    "log.message.timestamp.difference.max.ms": (
        "How far a record's time may differ from the broker's clock; use the before and after keys instead."
    ),
    "log.message.timestamp.type": (
        "Whose time a record gets: its producer's (CreateTime) or the broker's (LogAppendTime)."
    ),
    "log.preallocate": "Reserve the space of a segment when it is made.",
    "log.retention.bytes": "The size of a partition above which its oldest segments go; -1: no limit.",
    "log.retention.check.interval.ms": "How often to look for segments that are due to go.",
    "log.retention.hours": "How long records stay, in hours; -1: no limit.",
    "log.retention.minutes": "How long records stay, in minutes; goes before log.retention.hours.",
    "log.retention.ms": "How long records stay, in milliseconds; goes before the minutes and hours; -1: no limit.",
    "log.roll.hours": "The age at which a segment is closed and a new one begun, in hours.",
    "log.roll.jitter.hours": "A random time to take off log.roll.hours, so that segments do not roll all at once.",
    "log.roll.jitter.ms": "A random time to take off log.roll.ms, so that segments do not roll all at once.",
    "log.roll.ms": "The age at which a segment is closed and a new one begun, in milliseconds.",
    "log.segment.bytes": "The size at which a segment is closed and a new one begun.",
    "log.segment.delete.delay.ms": "How long a deleted file stays on disk for clients that still read it.",
    "max.connection.creation.rate": "The most new connections in a second.",
    "max.connections": "The most connections of this broker.",
    "max.connections.per.ip": "The most connections from one address.",
    "max.connections.per.ip.overrides": "Addresses or hosts with a limit of their own, as host:number pairs.",
    "max.incremental.fetch.session.cache.slots": "How many incremental fetch sessions are remembered.",
    "max.request.partition.size.limit": "The most partitions in one answer to DescribeTopicPartitions.",
    "message.max.bytes": "The largest batch that a topic accepts.",
    "min.insync.replicas": "How many replicas must have a record before acks=all is answered.",
    "node.id": "Another name of broker.id.",
    "num.partitions": "Partitions of a topic whose creator does not say.",
    "num.recovery.threads.per.data.dir": "How many logs of a directory are opened at the same time at start.",
    "num.replica.fetchers": "How many connections of each worker fetch from each leader.",
    "offset.metadata.max.bytes": "The longest text that may be stored with a committed offset.",
    "offsets.commit.required.acks": "Whether a commit waits for all replicas in sync (-1) or for the leader alone (1).",
    "offsets.commit.timeout.ms": "How long a commit waits for its replicas.",
    "offsets.load.buffer.size": "How many bytes are read at a time when committed offsets are loaded.",
    "offsets.retention.check.interval.ms": "How often to look for committed offsets that have expired.",
    "offsets.retention.minutes": "How long offsets of a group without members stay.",
    "offsets.topic.compression.codec": "How commits are compressed: 0 not, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
    "offsets.topic.num.partitions": "Partitions of the topic of committed offsets; fixed at its creation.",
    "offsets.topic.replication.factor": "Replicas of the topic of committed offsets.",
    "offsets.topic.segment.bytes": "Segment size of the topic of committed offsets.",
    "pkafka.heartbeat.timeout.ms": "A process of the broker that is silent for this long is killed and replaced.",
    "pkafka.metrics.basic.auth.file": "A file with lines NAME:PASSWORD: who may read the metrics page.",
    "pkafka.metrics.ssl.client.auth": "Whether readers of the metrics page show a certificate.",
    "pkafka.metrics.ssl.truststore.location": "Whose certificates let readers in at the metrics page.",
    "pkafka.metrics.ssl.truststore.password": "The password of the metrics page's truststore.",
    "pkafka.metrics.ssl.truststore.type": "The form of the metrics page's truststore: JKS, PKCS12 or PEM.",
    "pkafka.metrics.ssl.key.password": "The password of the metrics page's key.",
    "pkafka.metrics.ssl.keystore.location": "Key and certificate of the metrics page, which then speaks HTTPS.",
    "pkafka.metrics.ssl.keystore.password": "The password of the metrics page's keystore.",
    "pkafka.metrics.ssl.keystore.type": "The form of the metrics page's keystore: JKS, PKCS12 or PEM.",
    "pkafka.metrics.host": "The address on which the metrics page is served.",
    "pkafka.ssl.crl.location": "A PEM file of lists of revoked certificates, which are refused then.",
    "pkafka.transactional.ids.max": "How many transactional ids a broker keeps; those idle for longest go then.",
    "pkafka.metrics.port": "The port of the metrics, for Prometheus and for pk-metrics; -1: none, 0: any free port.",
    "pkafka.transaction.fenced.markers.heal.enable": (
        "Whether a transaction completes that another marker, with a higher epoch, has ended in a partition; false: its"
        " id stays in its Prepare state, as in Kafka."
    ),
    "pkafka.workers": "Number of worker processes; 0: one for each core that the broker may use.",
    "principal.builder.class": (
        "A class of Java that names the principal of a client; none can be loaded, so only Kafka's own is accepted."
    ),
    "process.roles": "Belongs to KRaft mode, which pkafka does not have; a value is refused.",
    "password.encoder.cipher.algorithm": "How passwords are encrypted; AES/CBC/PKCS5Padding is what there is.",
    "password.encoder.iterations": "How often the secret is hashed to a key.",
    "password.encoder.key.length": "Bits of the key: 128, 192 or 256.",
    "password.encoder.keyfactory.algorithm": "How the secret becomes a key; when not set, PBKDF2WithHmacSHA512.",
    "password.encoder.old.secret": "The secret before, by which stored passwords may still be encrypted.",
    "password.encoder.secret": (
        "Encrypts passwords among the dynamic settings; when not set, none can be stored."
    ),
    "producer.id.expiration.check.interval.ms": "How often to look for producer ids that have expired.",
    "producer.id.expiration.ms": "How long the sequence numbers of a silent idempotent producer are remembered.",
    "queued.max.request.bytes": "The most bytes of requests that wait to be processed; -1: no limit.",
    "queued.max.requests": "The most requests that wait to be processed before reading stops.",
    "quota.window.num": "Over how many windows a rate is measured, the present one included.",
    "quota.window.size.seconds": "How long such a window is.",
    "remote.log.storage.system.enable": "Tiered storage; pkafka has none, so true is refused.",
    "replica.fetch.backoff.ms": "The longest pause of a follower after a failed fetch.",
    "replica.fetch.max.bytes": "The most bytes that a follower asks for per partition.",
    "replica.fetch.min.bytes": "The fewest bytes that a leader gathers before it answers a follower.",
    "replica.fetch.response.max.bytes": "The most bytes that a follower asks for at once.",
    "replication.quota.window.num": "Over how many windows the rate of throttled replicas is measured.",
    "replication.quota.window.size.seconds": "How long such a window is.",
    "replica.fetch.wait.max.ms": "The longest time that a leader lets a follower wait for new records.",
    "replica.high.watermark.checkpoint.interval.ms": "How often the high watermarks are written down.",
    "replica.lag.time.max.ms": "How long a follower may lag before it leaves the in-sync replicas.",
    "replica.socket.receive.buffer.bytes": "Receive buffer of a follower's connection.",
    "replica.selector.class": (
        "Chooses the replica from which a consumer reads: RackAwareReplicaSelector or LeaderSelector"
        " of org.apache.kafka.common.replica."
    ),
    "replica.socket.timeout.ms": "How long a leader may take to accept a follower's connection.",
    "request.timeout.ms": "How long this broker waits for an answer to its own requests, fetches of replicas too.",
    "reserved.broker.max.id": "The highest id that a person may give; generated ids begin above it.",
    "sasl.enabled.mechanisms": (
        "How clients may log in at listeners with SASL: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, GSSAPI."
    ),
    "sasl.jaas.config": (
        "The login module of a mechanism, under listener.name.<listener>.<mechanism>. only; see docs/security.md."
    ),
    "sasl.kerberos.principal.to.local.rules": (
        "From Kerberos principals to users: DEFAULT, and RULE:[n:format](pattern)s/from/to/g with /L or /U."
    ),
    "sasl.kerberos.service.name": "The first part of the broker's Kerberos principal, most often kafka.",
    "sasl.login.callback.handler.class": (
        "Where the tokens come from by which this broker logs in at others:"
        " Kafka's OAuthBearerLoginCallbackHandler (a token server) or the one of unsecured tokens."
    ),
    "sasl.login.connect.timeout.ms": "How long a connection to the token server may take.",
    "sasl.login.read.timeout.ms": "How long the token server may take for its answer.",
    "sasl.login.refresh.buffer.seconds": "How long before its end a token is renewed at the latest.",
    "sasl.login.refresh.min.period.seconds": "How long a token is kept at least before it is renewed.",
    "sasl.login.refresh.window.factor": "The part of its life after which a token is renewed.",
    "sasl.login.refresh.window.jitter": "The largest part that chance adds to that.",
    "sasl.login.retry.backoff.max.ms": "The longest pause before a token server that failed is asked again.",
    "sasl.login.retry.backoff.ms": "The first pause before a token server that failed is asked again.",
    "sasl.oauthbearer.token.endpoint.url": (
        "The address, http or https, of the server that gives this broker tokens."
    ),
    "sasl.mechanism.inter.broker.protocol": "How this broker logs in at others: PLAIN, SCRAM, OAUTHBEARER or GSSAPI.",
    "sasl.oauthbearer.clock.skew.seconds": "How far the clocks of the broker and of who signs tokens may differ.",
    "sasl.oauthbearer.expected.audience": "For whom signed tokens have to be: one of these.",
    "sasl.oauthbearer.expected.issuer": "Who has to have issued signed tokens.",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": "How often the keys that sign tokens are asked for.",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": "The longest pause before these keys are asked for again.",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": "The first pause before these keys are asked for again.",
    "sasl.oauthbearer.jwks.endpoint.url": "The address, http or https, of the keys that sign tokens.",
    "sasl.oauthbearer.scope.claim.name": "The claim of a signed token that says what it is for.",
    "sasl.oauthbearer.sub.claim.name": "The claim of a signed token that names its user.",
    "sasl.server.callback.handler.class": (
        "Which tokens OAUTHBEARER takes: Kafka's class for signed ones, or for those without a signature (the default)."
    ),
    "sasl.server.max.receive.size": "The largest frame that a client may send before it has logged in.",
    "security.inter.broker.protocol": (
        "The protocol, and by that the listener, over which brokers talk to each other."
    ),
    "socket.connection.setup.timeout.max.ms": "The longest that a broker may take to accept a connection.",
    "socket.connection.setup.timeout.ms": (
        "How long a broker may take to accept a connection of another one; twice as long after each failure."
    ),
    "socket.listen.backlog.size": "How many connections may wait to be accepted.",
    "socket.receive.buffer.bytes": "Receive buffer of a connection; -1: the system's default.",
    "socket.request.max.bytes": "The largest request that is read.",
    "socket.send.buffer.bytes": "Send buffer of a connection; -1: the system's default.",
    "ssl.allow.dn.changes": (
        "Whether a certificate may be exchanged for one of another name while the broker runs."
    ),
    "ssl.allow.san.changes": (
        "Whether it may be exchanged for one that is not for all the hosts of the one before."
    ),
    "ssl.cipher.suites": (
        "The suites that are offered, by the names of IANA or OpenSSL; when not set, OpenSSL's choice."
    ),
    "ssl.client.auth": "Whether clients show a certificate: required, requested or none.",
    "ssl.enabled.protocols": "The versions of TLS that are spoken: TLSv1.2, TLSv1.3 or both.",
    "ssl.endpoint.identification.algorithm": (
        "https: the certificate of another broker has to name its host; empty: any."
    ),
    "ssl.engine.factory.class": "Classes of Java cannot be loaded, so one is refused.",
    "ssl.key.password": "The password of the key in the keystore; when not set, that of the store.",
    "ssl.keystore.certificate.chain": "The broker's certificate and those that signed it, as PEM text.",
    "ssl.keystore.key": "The broker's key, as PEM text.",
    "ssl.keystore.location": "The file with the broker's key and certificate.",
    "ssl.keystore.password": "The password of that file; PEM has none.",
    "ssl.keystore.type": "JKS, PKCS12 or PEM.",
    "ssl.principal.mapping.rules": (
        "Makes names of users of the names in clients' certificates: RULE:pattern/replacement/[LU], DEFAULT."
    ),
    "ssl.provider": "Classes of Java cannot be loaded, so one is refused.",
    "ssl.truststore.certificates": "The certificates that are trusted, as PEM text.",
    "ssl.truststore.location": (
        "The file with the certificates that are trusted; when not set, the system's authorities."
    ),
    "ssl.truststore.password": "The password of that file; PEM has none.",
    "ssl.truststore.type": "JKS, PKCS12 or PEM.",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": (
        "How often the coordinator aborts transactions that have had their time."
    ),
    "transaction.max.timeout.ms": "The longest transaction timeout that a producer may ask for.",
    "transaction.partition.verification.enable": (
        "Whether the leader of a partition asks the coordinator before it begins a transaction there."
    ),
    "transaction.remove.expired.transaction.cleanup.interval.ms": (
        "How often the coordinator forgets transactional ids that were not used for long."
    ),
    "transaction.state.log.load.buffer.size": "Bytes of transactions' states that are read at a time.",
    "transaction.state.log.min.isr": "Replicas that must have a transaction's state before it counts.",
    "transaction.state.log.num.partitions": "Partitions of the topic of transactions; fixed at its creation.",
    "transaction.state.log.replication.factor": "Replicas of the topic of transactions.",
    "transaction.state.log.segment.bytes": "Segment size of the topic of transactions.",
    "transactional.id.expiration.ms": "How long an unused transactional id is remembered.",
    "unclean.leader.election.enable": (
        "Let a replica that lacks records become leader when no other can, losing them."
    ),
    "zookeeper.connect": (
        "The ZooKeeper servers as host:port,...[/chroot]; when not set, one broker runs alone on its embedded store."
    ),
    "zookeeper.connection.timeout.ms": (
        "How long to wait for ZooKeeper at start; as the session timeout when not set."
    ),
    "zookeeper.max.in.flight.requests": "How many requests to ZooKeeper may be unanswered at a time.",
    "zookeeper.session.timeout.ms": "After how much silence ZooKeeper takes this broker for dead.",
    "zookeeper.set.acl": "Others may not write this broker's nodes in ZooKeeper; needs a login there.",
    "zookeeper.ssl.cipher.suites": (
        "The suites that are offered to ZooKeeper; when not set, OpenSSL's choice."
    ),
    "zookeeper.ssl.client.enable": "Talk to ZooKeeper over TLS.",
    "zookeeper.ssl.crl.enable": (
        "pkafka looks at no list of certificates that are revoked, so true is refused."
    ),
    "zookeeper.ssl.enabled.protocols": (
        "The versions of TLS that are spoken to ZooKeeper; when not set, zookeeper.ssl.protocol."
    ),
    "zookeeper.ssl.endpoint.identification.algorithm": (
        "HTTPS: the certificate of ZooKeeper has to name its host; empty: any."
    ),
    "zookeeper.ssl.keystore.location": (
        "The file with the key and the certificate that are shown to ZooKeeper."
    ),
    "zookeeper.ssl.keystore.password": "The password of that file; of PEM, that of its key.",
    "zookeeper.ssl.keystore.type": "JKS, PKCS12 or PEM; when not set, by the ending of the file's name.",
    "zookeeper.ssl.ocsp.enable": (
        "pkafka asks no service whether a certificate is revoked, so true is refused."
    ),
    "zookeeper.ssl.protocol": (
        "The version of TLS that is spoken to ZooKeeper; when not set, TLSv1.2 and TLSv1.3."
    ),
    "zookeeper.ssl.truststore.location": "The file with the certificates of ZooKeeper that are trusted.",
    "zookeeper.ssl.truststore.password": "The password of that file.",
    "zookeeper.ssl.truststore.type": "JKS, PKCS12 or PEM; when not set, by the ending of the file's name.",
}

TOPIC_DOCUMENTATION: Final[dict[str, str]] = {
    "cleanup.policy": "What happens to old segments: delete, compact, or both.",
    "compression.gzip.level": (
        "Level used where the broker compresses with gzip: 1 to 9, or -1 for the codec's default."
    ),
    "compression.lz4.level": "Level used where the broker compresses with lz4.",
    "compression.type": "How batches are stored: in one codec, uncompressed, or as the producer sent them.",
    "compression.zstd.level": "Level used where the broker compresses with zstd.",
    "delete.retention.ms": "How long the marks of deleted keys stay in a compacted topic.",
    "file.delete.delay.ms": "How long a deleted file stays on disk for clients that still read it.",
    "flush.messages": "Sync to disk after so many records.",
    "flush.ms": "Sync to disk after so much time.",
    "follower.replication.throttled.replicas": (
        "Replicas whose fetching is throttled, as partition:broker pairs, or *."
    ),
    "index.interval.bytes": "Bytes of the log between two entries of its index.",
    "leader.replication.throttled.replicas": (
        "Replicas whose leaders throttle fetches, as partition:broker pairs, or *."
    ),
    "local.retention.bytes": (
        "How many bytes of a tiered partition stay on the broker's disk; -2: as retention.bytes."
    ),
    "local.retention.ms": "How long segments of a tiered partition stay on the broker's disk; -2: as retention.ms.",
    "max.compaction.lag.ms": "The longest time that a record may stay uncompacted.",
    "max.message.bytes": "The largest batch that the topic accepts.",
    "message.downconversion.enable": "Convert batches to old formats for old consumers.",
    "message.format.version": "Accepted for old topics; records are always written in the format of version 2.",
    "message.timestamp.after.max.ms": "How far a record's time may lie after the broker's clock.",
    "message.timestamp.before.max.ms": "How far a record's time may lie before the broker's clock.",
    "message.timestamp.difference.max.ms": (
        "How far a record's time may differ from the broker's clock; use the before and after keys instead."
    ),
    "message.timestamp.type": (
        "Whose time a record gets: its producer's (CreateTime) or the broker's (LogAppendTime)."
    ),
    "min.cleanable.dirty.ratio": "Share of uncompacted bytes above which the log is compacted.",
    "min.compaction.lag.ms": "The shortest time that a record stays uncompacted.",
    "min.insync.replicas": "How many replicas must have a record before acks=all is answered.",
    "preallocate": "Reserve the space of a segment when it is made.",
    "remote.log.copy.disable": "Stop copying segments to the remote tier; not available in ZooKeeper mode.",
    "remote.log.delete.on.disable": (
        "Delete the remote tier's data when tiering is switched off; not available in ZooKeeper mode."
    ),
    "remote.storage.enable": "Keep old segments in a remote tier.",
    "retention.bytes": "The size of a partition above which its oldest segments go; -1: no limit.",
    "retention.ms": "How long records stay; -1: no limit.",
    "segment.bytes": "The size at which a segment is closed and a new one begun.",
    "segment.index.bytes": "The size at which an index is full and its segment is rolled.",
    "segment.jitter.ms": "A random time to take off segment.ms, so that segments do not roll all at once.",
    "segment.ms": "The age at which a segment is closed and a new one begun.",
    "unclean.leader.election.enable": (
        "Let a replica that lacks records become leader when no other can, losing them."
    ),
}
