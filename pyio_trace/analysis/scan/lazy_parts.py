"""Parts of reducers that add batches to running totals.

A batch that came first needs no totals of its own when it is combined with what
was before it: it is added there.  So a part is a batch until its totals are
needed, which is when it comes first, or when it is sent to another process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar


class Totals(Protocol):
    """Running totals of type Self over batches of type Any."""

    def absorb(self, batch: Any) -> None:
        """Adds a batch."""

    def update(self, later: Any) -> None:
        """Adds the totals of what came later."""


T = TypeVar("T", bound=Totals)


class LazyPart(Generic[T]):
    """A batch, or the totals of several.  Pickled as totals."""

    def __init__(self, make: Callable[[], T], batch: object) -> None:
        """make: gives empty totals, to which the batch can be added."""
        self._make: Callable[[], T] | None = make
        self._batch: object = batch
        self._totals: T | None = None

    @property
    def totals(self) -> T:
        """The totals of everything in this part."""
        if self._totals is None:
            assert self._make is not None
            self._totals = self._make()
            self._totals.absorb(self._batch)
            self._batch = self._make = None
        return self._totals

    def combine(self, later: LazyPart[T]) -> LazyPart[T]:
        """This part with the later one added."""
        if later._totals is None:
            self.totals.absorb(later._batch)
        else:
            self.totals.update(later._totals)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _with_totals, (self.totals,)


def _with_totals(totals: T) -> LazyPart[T]:
    part: LazyPart[T] = LazyPart.__new__(LazyPart)
    part._make, part._batch, part._totals = None, None, totals
    return part
