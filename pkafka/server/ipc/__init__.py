"""Between the processes of one broker."""
