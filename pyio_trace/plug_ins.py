"""Rules and views of other distributions: what their entry points name.

They are looked for where Python finds installed distributions, and never in the current folder, which may be a
stranger's.  Instruments, which run inside the program, have a finder of their own (csrc/ext/imports/distributions.c).
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING

from pyio_trace import entry_points

if TYPE_CHECKING:
    from types import ModuleType


def of_group(group: str) -> dict[str, str]:
    """The entry points of a group by name, ``module:attribute``."""
    try:
        here = os.path.realpath(os.getcwd())
    except OSError:
        here = ""
    path = [folder for folder in sys.path if folder and os.path.realpath(folder) != here]
    return entry_points.of_group(group, path)


def loaded(where: str) -> object:
    """What ``module:attribute`` names.  Raises ValueError, and whatever importing the module raises."""
    if not entry_points.is_dotted(where):
        raise ValueError(f"{where!r} names no module")
    module, _, attribute = where.partition(":")
    found: object = importlib.import_module(module)
    for part in attribute.split(".") if attribute else ():
        found = getattr(found, part)
    return found


def module_of(where: str) -> ModuleType | None:
    """The module that ``module:attribute`` names, once it is loaded."""
    return sys.modules.get(where.partition(":")[0])
