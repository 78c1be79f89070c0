"""MirrorMaker 2: connectors that copy topics, positions of groups and heartbeats between clusters (KIP-382)."""
