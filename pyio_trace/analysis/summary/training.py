"""The training loop of a run, for commands that do not make its whole summary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyio_trace.analysis.reducer import scan
from pyio_trace.analysis.scan.filters import lacks_calls
from pyio_trace.analysis.summary.detail_rows import DetailRows
from pyio_trace.analysis.view_sums.loader_calls import OPS, WAIT, hosts
from pyio_trace.analysis.view_sums.loader_epochs import epochs
from pyio_trace.analysis.view_sums.loader_steps import Training, loops_of, measured_loops, training_of

if TYPE_CHECKING:
    from pyio_trace.join.sources.facade import Log


def training(log: Log) -> Training | None:
    """The loop over a DataLoader's batches that took longest; None: there is none that has figures.

    A log without a DataLoader is not read.
    """
    if lacks_calls(log) or WAIT not in log.dictionary("op").to_pylist():
        return None
    table = log.processes().to_pylist()
    calls = scan(log, [DetailRows(frozenset(OPS), sums=False)])[0].loader_calls
    found, _ = epochs(calls, hosts(table))
    ranks = {process["index"] for process in table if process["global_rank"] is not None}
    loops = measured_loops(loops_of(found), ranks)
    return training_of(loops[0]) if loops else None
