"""Replication: decisions of leaders and followers without I/O, and the fetchers that carry them out."""
