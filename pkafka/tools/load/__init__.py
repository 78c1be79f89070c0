"""Puts load on a cluster and measures it: Kafka's three tools with their statistics, and tests from many processes.

``producer_perf``, ``consumer_perf`` and ``end_to_end_latency`` are ProducerPerformance, ConsumerPerformance and
EndToEndLatency: one client each. ``perf_test`` leads many generators, which are processes or tasks of Spark's.
"""
