"""Server processes of this machine: how tools start them, find them and stop them, and where their log lines go.

``local_broker`` is one broker for a while, ``dev_brokers`` keeps brokers in the background, ``processes`` finds what
runs. ``security`` makes either of the two a secured one, by certificates of ``authority``; ``secured_broker`` is one
for tests. ``broker_logging`` decides which line goes to which file, ``rotating_log`` is such a file.
"""
