"""The admin client. It is loaded when a program first asks for it: a tool may need a part of it alone."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pkafka.clients.admin.client import Admin
else:

    def __getattr__(name: str) -> object:
        if name != "Admin":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from pkafka.clients.admin.client import Admin

        return Admin


__all__ = ["Admin"]
