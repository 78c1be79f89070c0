"""How replicas of a partition follow their leader: decisions without I/O, and the fetchers that carry them out."""
