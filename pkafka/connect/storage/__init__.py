"""Where workers of Kafka Connect keep offsets, configurations and statuses: in a file, or in topics that they share."""
