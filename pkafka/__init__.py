"""pkafka: Apache Kafka in Python."""

import os

__version__ = "0.1.0"

KAFKA_VERSION = "3.9.1"
"""The Apache Kafka release whose behaviour, formats and command lines pkafka follows."""

if os.environ.get("PKAFKA_PURE") == "1":
    from pkafka.hot_path import prefer_sources

    prefer_sources(__path__[0])
