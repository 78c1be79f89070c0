"""Apache Kafka 3.9.1 and pkafka in turn, on the same machine, by the same generator: ``python -m benchmarks``."""
