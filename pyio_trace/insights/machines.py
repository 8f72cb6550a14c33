"""Which hosts of a run are one machine.

Containers of a machine have names of their own, and one kernel, whose start has
an id.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def machines(info: Mapping[str, Any]) -> dict[str, str]:
    """Host, as in the process table -> the id of the start of its kernel; without hosts that have several, or none.

    info: Log.info().
    """
    found: dict[str, set[str]] = {}
    for log in _logs(info):
        found.setdefault(log["host"], set()).add(log.get("boot") or "")
    return {host: boots.pop() for host, boots in found.items() if len(boots) == 1}


def _logs(info: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The descriptions of single logs, also of those in folders of folders."""
    inner = info.get("logs")
    if inner is None:
        yield info
    for one in inner or ():
        yield from _logs(one)
