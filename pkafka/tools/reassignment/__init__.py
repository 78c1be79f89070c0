"""Moving partitions between brokers: ``plan`` reads and decides without I/O, ``run`` asks a cluster. Does not print."""
