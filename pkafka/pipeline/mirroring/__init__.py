"""Mirrors as jobs: partitions that are compared or copied by tasks of Spark's, and the disks of a dead cluster."""
