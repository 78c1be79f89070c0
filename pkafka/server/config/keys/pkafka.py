"""The configuration keys that only pkafka has, as data; rows as in broker.py."""

from typing import Final

PKAFKA_KEYS: Final = (
    ("pkafka.workers", "int", "0", ("range", 0, 256), "medium", "read-only"),
    ("pkafka.heartbeat.timeout.ms", "int", "10000", ("range", 2000, None), "low", "read-only"),
    ("pkafka.transactional.ids.max", "int", "1000000", ("range", 1, None), "low", "read-only"),
    ("pkafka.metrics.port", "int", "-1", ("range", -1, 65535), "low", "read-only"),
    ("pkafka.metrics.host", "string", "localhost", ("not empty",), "low", "read-only"),
    ("pkafka.metrics.ssl.keystore.location", "string", None, None, "low", "read-only"),
    ("pkafka.metrics.ssl.keystore.password", "password", None, None, "low", "read-only"),
    ("pkafka.metrics.ssl.keystore.type", "string", "JKS", None, "low", "read-only"),
    ("pkafka.metrics.ssl.key.password", "password", None, None, "low", "read-only"),
    (
        "pkafka.metrics.ssl.client.auth",
        "string",
        "none",
        ("one of", "required", "requested", "none"),
        "low",
        "read-only",
    ),
    ("pkafka.metrics.ssl.truststore.location", "string", None, None, "low", "read-only"),
    ("pkafka.metrics.ssl.truststore.password", "password", None, None, "low", "read-only"),
    ("pkafka.metrics.ssl.truststore.type", "string", "JKS", None, "low", "read-only"),
    ("pkafka.metrics.basic.auth.file", "string", None, None, "low", "read-only"),
    ("pkafka.ssl.crl.location", "string", None, None, "low", "read-only"),
    ("pkafka.transaction.fenced.markers.heal.enable", "boolean", "true", None, "low", "read-only"),
)
