"""The words of remedies: one table, by what a rule has found (a mechanism) and the library that a line called.

Each module here has a table WORDS for some libraries; no list names the modules.  A key is (mechanism, reader), a
reader a name that pyio_trace.insights.libraries.readers() gives.  The reader "" stands for all that have no words of
their own: what is said of these is true for every library, and has no code.  tests/insights/words runs each before and
after, and counts.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from pyio_trace.insights.words import mechanisms
from pyio_trace.insights.words.mechanisms import Words

if TYPE_CHECKING:
    from pyio_trace.insights.finding import Remedy

__all__ = ["remedy", "table"]


def remedy(mechanism: str, readers: Sequence[str]) -> Remedy:
    """What helps against a mechanism.  readers: libraries that made the calls, the one that the program called first:
    it has the interface in which the remedy is written."""
    reader = readers[0] if readers else ""
    known = table()
    for one in (mechanism, *mechanisms.LIKE.get(mechanism, ())):
        for name in (reader, reader.partition("/")[0]):
            if (one, name) in known and name:
                return known[one, name]
    return known[mechanism, ""]


@cache
def table() -> Words:
    """All words."""
    found: Words = {}
    for info in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{info.name}")
        found.update(getattr(module, "WORDS", {}))
    return found
