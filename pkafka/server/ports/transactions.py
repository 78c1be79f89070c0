"""The port of the handlers of requests about transactions: the worker implements it, tests replace it."""

from typing import Protocol

from pkafka.server.transactions.routing import TransactionRouter


class TransactionPort(Protocol):
    """A worker, as requests about one transactional id or several see it."""

    @property
    def transaction_routing(self) -> TransactionRouter:
        """Finds the worker that coordinates a transactional id, which may be another one."""
        ...
