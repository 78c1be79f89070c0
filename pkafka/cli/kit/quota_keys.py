"""The keys of quotas, which pk-configs takes and a shell offers."""

from typing import Final

CLIENT_KEYS: Final = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
)
"""Quotas of users and clients."""

IP_KEYS: Final = ("connection_creation_rate",)
"""Quotas of addresses."""
