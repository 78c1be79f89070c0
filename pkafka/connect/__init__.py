"""Kafka Connect: connectors as Apache Kafka Connect 3.9 runs them, and what they are made of.

``data``, ``converters`` and ``transforms`` are pure: they turn values into values, and know no socket and no clock.
"""
