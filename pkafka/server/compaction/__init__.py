"""Compaction, outside the worker that owns the log."""
