"""Reducers: views of a log that are sums, and the one scan that feeds them all.

A reducer turns a batch of operations into a part, combines parts, and makes the
typed result from the last one.  Because parts combine, the same reducer runs
over one log, over several, and in several processes; because scan() reads each
batch once for all reducers, a second view costs its own sums and no reading.

A reducer that needs nothing of a log but its batches is a module of
pyio_trace/analysis/reducers with a class under the name REDUCER; there is no list
of them.  The summary's reducers are made for one log.

A reducer whose result depends on the order of rows has `ordered = True`.  The
batches of a log are then combined from the first to the last.  Parts of several
logs are combined with each other, because logs share no process and no file.

Other reducers may save memory by adding up what no later batch can change.  That
is only possible in a part that begins where the log does.  Such a reducer has a
method of_a_part(), which returns the reducer for all other parts.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyio_trace.analysis import reducers as found_here
from pyio_trace.analysis.scan.decoding import Decoder
from pyio_trace.analysis.scan.prefetch import BackgroundCalls, read_ahead
from pyio_trace.analysis.scan.running import Reducer, Running, columns_of

if TYPE_CHECKING:
    import pyarrow as pa

    from pyio_trace.analysis.scan.workers import Workers
    from pyio_trace.join.sources.facade import Log

__all__ = ["Reducer", "found", "scan"]


def scan(
    log: Log,
    reducers: Sequence[Reducer[Any, Any]],
    progress: Callable[[int], None] | None = None,
    batches: Iterator[pa.RecordBatch] | None = None,
    workers: Workers | None = None,
) -> list[Any]:
    """The result of each reducer, in one pass over the log.

    progress: called with the rows of each finished batch; batches: those of the
    log with at least the columns needed, if they are being read anyway; workers:
    processes that read the log instead of this one (parallel_scan.py), not for
    given batches.  Raises what reading the log raises.
    """
    if workers is not None and batches is None:
        from pyio_trace.analysis.scan.parallel_scan import scan_with

        return scan_with(workers, log, reducers, progress)
    decoder = Decoder.of(log, columns_of(reducers))
    running = Running(reducers)
    with BackgroundCalls.lanes(len(reducers)) as lanes:
        for batch in read_ahead(map(decoder, log.batches(decoder.needed) if batches is None else batches)):
            running.add(batch, lanes)
            if progress is not None:
                progress(batch.num_rows)
    return [reducer.finish(part, log) for reducer, part in zip(reducers, running.parts, strict=True)]


def found() -> dict[str, type[Reducer[Any, Any]]]:
    """All reducers by the name of their module, in alphabetical order."""
    import pkgutil  # slow to import, and the end of a run does not need it

    names = sorted(module.name for module in pkgutil.iter_modules(found_here.__path__))
    return {name: importlib.import_module(f"{found_here.__name__}.{name}").REDUCER for name in names}
