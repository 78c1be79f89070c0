"""What is wrong between a client and its cluster, found by going the way step by step."""
