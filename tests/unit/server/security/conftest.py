"""A store of either kind, as the coordination's own tests have it."""

from tests.unit.coordination.conftest import coordination, store

__all__ = ["coordination", "store"]
