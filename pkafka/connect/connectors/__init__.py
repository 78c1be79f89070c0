"""The connectors that ship with pkafka. Each module has a connector and its task."""
