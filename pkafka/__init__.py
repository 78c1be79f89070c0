"""pkafka: Apache Kafka in Python."""

__version__ = "0.1.0"

KAFKA_VERSION = "3.9.1"
"""The Apache Kafka release whose behaviour, formats and command lines pkafka follows."""
