"""All pictures of a log, in one pass over it."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from pyio_trace.analysis.reducer import scan
from pyio_trace.pictures import kinds as found_here
from pyio_trace.pictures.kind import Kind, Results
from pyio_trace.pictures.picture import Picture

if TYPE_CHECKING:
    from pyio_trace.analysis.scan.workers import Workers
    from pyio_trace.join.sources.facade import Log


def found() -> list[Kind[Any]]:
    """All kinds of pictures, in their order."""
    names = [module.name for module in pkgutil.iter_modules(found_here.__path__)]
    kinds: list[Kind[Any]] = [importlib.import_module(f"{found_here.__name__}.{name}").KIND for name in names]
    return sorted(kinds, key=lambda kind: (kind.order, kind.name))


def results_of(
    log: Log,
    kinds: Iterable[Kind[Any]],
    progress: Callable[[int], None] | None = None,
    workers: Workers | None = None,
) -> Results:
    """The views that these kinds read, from one scan; progress, workers: see scan()."""
    views = list(dict.fromkeys(view for kind in kinds for view in kind.views))
    if not log.has_whole_processes:
        views = [view for view in views if not getattr(view, "whole_processes", False)]
    return Results(log, dict(zip(views, scan(log, [view() for view in views], progress, workers=workers), strict=True)))


def pictures_of(
    log: Log, progress: Callable[[int], None] | None = None, workers: Workers | None = None
) -> list[Picture]:
    """The pictures that concern this run; none for what it did not do, or what its log cannot tell.

    progress: called with the rows of each finished batch; workers: processes that
    read the log.  Raises what reading the log raises.
    """
    kinds = found()
    results = results_of(log, kinds, progress, workers)
    return [kind.picture(data, number) for kind in kinds for number, data in enumerate(kind.data(results), 1)]
