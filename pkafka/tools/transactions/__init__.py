"""What kafka-transactions does, and more: finds transactions that hang or hold readers back, and ends them."""
