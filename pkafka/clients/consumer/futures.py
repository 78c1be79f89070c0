"""The answer to a request that was sent and not waited for. Knows no thread and no socket."""

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
S = TypeVar("S")


class RequestFuture(Generic[T]):
    """Done once, with a value or an error, by the thread that polls the network.

    Three ways to use one, which work alike: poll and then read :attr:`value`; add a listener and poll; or
    :meth:`compose` it to one of what the answer means, and do either with that.
    """

    __slots__ = ("_error", "_listeners", "_value", "done")

    def __init__(self) -> None:
        self.done = False
        self._value: T | None = None
        self._error: Exception | None = None
        self._listeners: list[tuple[Callable[[T], None], Callable[[Exception], None]]] = []

    @classmethod
    def of(cls, value: T) -> "RequestFuture[T]":
        """One that has succeeded."""
        future = cls()
        future.complete(value)
        return future

    @classmethod
    def failed_with(cls, error: Exception) -> "RequestFuture[T]":
        """One that has failed."""
        future = cls()
        future.fail(error)
        return future

    @property
    def succeeded(self) -> bool:
        """Whether it is done and has a value."""
        return self.done and self._error is None

    @property
    def failed(self) -> bool:
        """Whether it is done and has an error."""
        return self._error is not None

    @property
    def retriable(self) -> bool:
        """Whether it failed with what may pass."""
        return bool(getattr(self._error, "retriable", False))

    @property
    def value(self) -> T:
        """What it succeeded with; whatever it failed with is raised.

        Raises:
            AssertionError: it is not done.
        """
        assert self.done, "the answer is not here yet"
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]  # a T since it is done without an error

    @property
    def error(self) -> Exception | None:
        """What it failed with."""
        return self._error

    def complete(self, value: T) -> None:
        """Succeed.

        Raises:
            AssertionError: it is done already.
        """
        assert not self.done, "the answer came twice"
        self.done, self._value = True, value
        listeners, self._listeners = self._listeners, []
        for on_success, _ in listeners:
            on_success(value)

    def fail(self, error: Exception) -> None:
        """Fail.

        Raises:
            AssertionError: it is done already.
        """
        assert not self.done, "the answer came twice"
        self.done, self._error = True, error
        listeners, self._listeners = self._listeners, []
        for _, on_failure in listeners:
            on_failure(error)

    def add_listener(
        self, on_success: Callable[[T], None], on_failure: Callable[[Exception], None] = lambda _: None
    ) -> None:
        """Call one of the two when it is done, at once if it is already; several are called in their order."""
        if not self.done:
            self._listeners.append((on_success, on_failure))
        elif self._error is not None:
            on_failure(self._error)
        else:
            on_success(self.value)

    def compose(self, adapter: "Callable[[T, RequestFuture[S]], None]") -> "RequestFuture[S]":
        """A future of what the answer means.

        Args:
            adapter: given the answer and the new future, which it completes or fails; an error of the request
                itself goes to the new future without it.
        """
        composed: RequestFuture[S] = RequestFuture()
        self.add_listener(lambda value: adapter(value, composed), composed.fail)
        return composed

    def chain(self, other: "RequestFuture[T]") -> None:
        """Let ``other`` end as this one does."""
        self.add_listener(other.complete, other.fail)
