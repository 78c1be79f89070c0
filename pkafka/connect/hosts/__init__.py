"""Processes beside a worker's own, in which connectors and tasks run: the worker keeps herder, REST API and topics."""
