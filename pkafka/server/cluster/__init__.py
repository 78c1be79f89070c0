"""What a broker knows of its cluster, and what it asks of it."""
