"""Text as Java reads it, wherever Python reads the same text differently.

Kafka's configuration files, command lines and nodes in ZooKeeper are read by Java's own classes: Properties,
Integer.parseInt, String.trim and split, Pattern. A module that reads such text uses this
room, which knows nothing of Kafka.
"""
