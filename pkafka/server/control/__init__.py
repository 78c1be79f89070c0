"""The control process's parts: the broker's registration, and its way to the cluster."""
