"""PyTorch's loaders: how long epochs would last with other numbers of workers, or if no batch had to be read.

Nothing is run here: pyio_trace.insights.loader_model lays the recorded epochs out
again.  A second time it leaves out the time that fetches spent in calls that
read.  The difference is the most that a remedy of I/O can save; reads that
computing hides already save nothing.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from pyio_trace.insights.finding import LOADER
from pyio_trace.insights.loader_model import Call, Model, model
from pyio_trace.insights.trials.attempt import Attempt
from pyio_trace.insights.trials.recorded import Rows
from pyio_trace.insights.trials.replay import NotTried


def loader_of(attempt: Attempt) -> Model:
    """The loader that the finding is about.  Raises NotTried if the log does not have its fetches."""
    names = {name for one in attempt.finding.evidence for name in str(one.values.get(LOADER, "")).split()}
    rows = attempt.rows
    reading = _reading(rows)
    columns = (rows.texts("op"), rows.details, *(rows.columns[name].tolist() for name in ("id", "time", "duration")))
    made = model(
        Call(op, detail, ident, begin, duration, min(reading.get(ident, 0), duration))
        for op, detail, ident, begin, duration in zip(*columns, strict=True)
        if detail.get("loader") in names
    )
    if made is None:
        raise NotTried("needs the program: the log has no fetches of its batches")
    return made


def _reading(rows: Rows) -> dict[int, int]:
    """Id of a fetch -> ns of the outermost I/O in it."""
    at = np.flatnonzero((rows.columns["outer"] != 0) & (rows.columns["task_id"] >= 0))
    sums: dict[int, int] = defaultdict(int)
    for task, time in zip(rows.columns["task_id"][at].tolist(), rows.columns["duration"][at].tolist(), strict=True):
        sums[task] += time
    return sums
