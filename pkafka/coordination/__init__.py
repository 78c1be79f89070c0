"""Where brokers agree: the store port, its two implementations, and the znodes of Kafka 3.9."""
