"""Looks at a cluster from outside: what its brokers say, what they count, and what an operator wants of its topics.

``metadata_view`` compares the brokers' metadata, ``jmx_page`` reads a broker's beans, ``broker_traffic`` takes rates
from these, and ``overview`` puts all of that on one screen. ``replica_verification`` compares replicas. ``topic_wait``
waits for topics, and ``declaration`` decides which steps lead to declared ones.
"""
