"""The broker's settings."""
