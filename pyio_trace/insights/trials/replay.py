"""Replay: what a trial runs, without the remedy and with it.  NotTried: why a remedy cannot be tried."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

Item = TypeVar("Item")

#: A remedy that does something once for so many operations still shows seven eighths of what it saves.
SEVERAL = 8


class NotTried(Exception):
    """The remedy cannot be tried; the message says why, as the end of "not tried: ..."."""


@dataclass(frozen=True)
class Replay:
    """Two ways to do the first n recorded operations.

    plain, remedy: do them as recorded, and with the remedy; each returns how
    many ns that took, without its preparations.  operations: the most that n can
    be; recorded: how many of them the log has.  before: called before each,
    untimed.  originals: descriptor of each file that is read -> bytes up to the
    last one that is, to say whether they are cached; empty: `cache` says it.
    least: a part of what the remedy saves is not tried, so the gain is at least
    the measured one; note: which part, or what else to know of the figures.
    workers: processes that do it side by side; threads: that plain and remedy start.
    together: operations that a round does at least, if there are so many: one alone cannot show what a remedy saves
    that does once for many what was done for each.
    share: of the recorded operations' time, what the trial covers; the remedy does not change the rest.
    """

    plain: Callable[[int], int]
    remedy: Callable[[int], int]
    operations: int
    recorded: int
    before: Callable[[], object] | None = None
    originals: Mapping[int, int] = field(default_factory=dict)
    least: bool = False
    note: str = ""
    cache: str = "new files"
    workers: int = 1
    threads: int = 1
    together: int = SEVERAL
    share: float = 1

    def __post_init__(self) -> None:
        if self.operations < 1:
            raise NotTried("the log has no operations of it that could be issued again")


def with_repetitions(items: Sequence[Item]) -> Callable[[int], Sequence[Item]]:
    """Gives a function that chooses n items, with all repetitions of some rather than some repetitions of all.

    So an item repeats in a part as often as in the whole.  n = len(items) gives them in their own order.
    """
    first: dict[Item, int] = {}
    for at, item in enumerate(items):
        first.setdefault(item, at)
    together = sorted(items, key=lambda item: first[item])
    return lambda count: items if count == len(items) else together[:count]
