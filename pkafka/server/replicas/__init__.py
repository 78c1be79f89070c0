"""The replicas whose logs a worker owns."""
