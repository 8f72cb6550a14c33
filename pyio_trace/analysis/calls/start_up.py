"""Tells a program's own lines from libraries'."""

from __future__ import annotations

import re
from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from pyio_trace.join.references.call_stacks import is_foreign
from pyio_trace.join.references.sent_code import DYNAMIC

#: Code of the program that is in no file: of -c, standard input, a console, a notebook, a doctest, another process.
_WITHOUT_FILE = re.compile(
    rf"<string>|<stdin>|<console>|<python-input-\d+>|<ipython-input-[^>:]*>|<doctest [^>:]*>|{re.escape(DYNAMIC)}"
)


def own_sites(sites: list[str]) -> NDArray[np.bool_]:
    """Which lines are the program's own; one more element than there are lines, for none."""
    return np.array([*map(is_own, sites), False])


def body_sites(sites: list[str], scripts: Collection[str]) -> NDArray[np.bool_]:
    """Which lines are in the bodies of the program's own modules, which imports run; one more element, for none.

    scripts: names of the files that processes of the run were started with: their bodies are no import's.
    """
    script = re.compile(f"(.*/)?({'|'.join(map(re.escape, scripts))}):" if scripts else "(?!)")
    return np.array([*(_is_body(one) and is_own(one) and script.match(one) is None for one in sites), False])


def _is_body(site: str) -> bool:
    return site.endswith(":<module>") and not site.startswith("<")


def is_own(site: str) -> bool:
    """Whether a line is the program's own, and no library's."""
    return not is_foreign(site) or _WITHOUT_FILE.match(site) is not None
