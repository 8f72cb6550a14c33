"""What a thread is for: the function that it was started with, found in its stacks.

A log has numbers of threads.  The outermost frame of a thread that is not of
threading says what runs in it; for threads of libraries there are words.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pyio_trace.join.base.arrow_arrays import texts_at
from pyio_trace.page.rows import Rows

Ints = NDArray[np.int64]

#: End of the file, function -> what such a thread is.
_WORDS = {
    ("concurrent/futures/thread.py", "_worker"): "thread pool",
    ("multiprocessing/queues.py", "_feed"): "queue feeder",
    ("multiprocessing/pool.py", "worker"): "thread pool",
    ("multiprocessing/pool.py", "_handle_workers"): "pool, workers",
    ("multiprocessing/pool.py", "_handle_tasks"): "pool, tasks",
    ("multiprocessing/pool.py", "_handle_results"): "pool, results",
    ("_utils/pin_memory.py", "_pin_memory_loop"): "pin memory",
    ("asyncio/runners.py", "run"): "asyncio",
}
_STARTERS = ("threading.py", "<frozen", "runpy.py")


def names(rows: Rows, lane: Ints, lanes: int) -> list[str]:
    """The name of each lane, "" where there is none; lane: of each row."""
    found = [""] * lanes
    stack = rows.values["call_stack"]
    at = np.flatnonzero(stack >= 0)
    _, first = np.unique(lane[at], return_index=True)
    chosen = at[first]
    for one, text in zip(lane[chosen].tolist(), texts_at(rows.texts["call_stack"], stack[chosen]), strict=True):
        found[one] = _name(text or "")
    return found


def _name(stack: str) -> str:
    for frame in stack.split(";", 40)[:40]:
        place, _, function = frame.rpartition(":")
        file = place.rpartition(":")[0]
        if file.rpartition("/")[2] in _STARTERS or file.startswith(_STARTERS[1]):
            continue
        word = next((word for (end, name), word in _WORDS.items() if function == name and file.endswith(end)), None)
        return word or ("" if function.startswith("<") else function[:60])
    return ""
