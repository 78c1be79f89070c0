"""Copies of topics on another cluster: made record by record or as whole batches, compared, judged in a drill."""
