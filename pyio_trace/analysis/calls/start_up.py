"""Which lines of a log are the program's, as arrays."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

import numpy as np
from numpy.typing import NDArray

from pyio_trace.join.references.own_code import OwnCode


def lines_that(test: Callable[[str], bool], sites: list[str]) -> NDArray[np.bool_]:
    """Which lines pass the test.  One more element than there are lines, for operations without a line."""
    return np.array([*map(test, sites), False])


def body_sites(sites: list[str], own: OwnCode, scripts: Collection[str]) -> NDArray[np.bool_]:
    """Which lines are in the bodies of the program's own modules, which imports run; one more element, for none.

    scripts: names of the files that processes of the run were started with: their bodies are no import's.
    """
    script = re.compile(f"(.*/)?({'|'.join(map(re.escape, scripts))}):" if scripts else "(?!)")
    return lines_that(lambda one: _is_body(one) and own.is_own(one) and script.match(one) is None, sites)


def _is_body(site: str) -> bool:
    return site.endswith(":<module>") and not site.startswith("<")
