"""The admin client and its results."""

from pkafka.clients.admin.client import Admin

__all__ = ["Admin"]
