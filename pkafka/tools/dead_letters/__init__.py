"""Dead letters of sink connectors: looking at them, and sending them back to the topics that they came from."""
