"""The REST API of a worker, as Kafka Connect's: same paths, statuses and JSON."""
