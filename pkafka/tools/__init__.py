"""What the commands do, without printing it: a room for each thing that an operator works on.

``cluster``, ``groups``, ``elections`` and ``reassignment`` ask brokers. ``console``, ``load`` and ``verifiable`` are
clients that write and read records. ``logs`` reads the files of log directories. ``servers`` starts and finds
processes of this machine, ``zookeeper`` asks the store. The single modules are forms of text that rooms share.
"""
