"""Server processes of this machine: how tools start them, find them and stop them, and where their log lines go.

``local_broker`` is one broker for a while, ``dev_brokers`` keeps brokers in the background, ``processes`` finds what
runs. ``broker_logging`` decides which line goes to which file, ``rotating_log`` is such a file.
"""
