"""Rates and limits, counted over all processes of a broker."""
