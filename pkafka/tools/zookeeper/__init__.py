"""What tools do with ZooKeeper: its shell, its quotas, a server of its own, and settings that only its nodes can hold.

``shell`` keeps what lasts between two lines, ``verbs`` answers them, ``words`` reads and writes their text, and
``quota`` knows the nodes of quotas. ``configs`` does what ``pk-configs --zookeeper`` asks for, and ``protection`` sets
the rights of nodes that are there. ``server`` starts ZooKeeper from its jars.
"""
