"""Workers that share connectors and tasks: what each of them does (``DistributedHerder``)."""
