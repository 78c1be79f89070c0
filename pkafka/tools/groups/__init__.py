"""What kafka-consumer-groups does: describes groups and their lag, resets their offsets, foresees their deletion."""
