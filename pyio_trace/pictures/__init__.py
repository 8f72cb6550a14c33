"""Pictures of a run, each as SVG and as the table behind it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyio_trace.pictures.picture import Picture

if TYPE_CHECKING:
    from pyio_trace.join.sources.facade import Log


def pictures_of(log: Log, progress: Callable[[int], None] | None = None) -> list[Picture]:
    """The pictures that say something of this log."""
    return []
