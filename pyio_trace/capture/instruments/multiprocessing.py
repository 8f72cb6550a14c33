"""multiprocessing: what each process is called, in the process table; tasks of a Pool and waits for them (_pool.py).

A process has a name of multiprocessing's (ForkPoolWorker-2) or of the program's.
Libraries that start processes by multiprocessing, such as PyTorch and Dask, know
better ones: their instruments name the process again.

A fork server forks in its own loop.  The line that asked for the process travels
with what spawn.py prepares the new process with: a dictionary, of which it takes
what it knows.
"""

from __future__ import annotations

import sys

from pyio_trace import native
from pyio_trace.capture.instrumentation.instrument import MARKS, Instrument, Target
from pyio_trace.capture.instruments._pool import targets_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

_ASKED_FROM = "pyio_trace_asked_from"  # in the preparation data: identity of the log, stack
_FORK_SERVERS = ("multiprocessing.popen_forkserver", "multiprocess.popen_forkserver")
_POOL_TARGET = "_process_worker"  # what a worker of concurrent.futures' ProcessPoolExecutor runs


def target_name(process: Any) -> str | None:
    """The name of the function that a process runs; None: it runs another callable, whose attributes may run code."""
    target = process.__dict__.get("_target")
    is_function = type(target).__name__ == "function" and type(target).__module__ == "builtins"
    return target.__name__ if is_function else None


def _name(process: Any, *args: object, **kwargs: object) -> None:
    """BaseProcess._bootstrap: the first code of multiprocessing in the new process."""
    is_pool = "PoolWorker" in process.name or target_name(process) == _POOL_TARGET
    if native.core is not None:
        native.core.name_process("pool worker" if is_pool else "multiprocessing process", process.name)


def _asked(data: Any, name: str) -> None:
    """get_preparation_data, in the process that asks."""
    caller = sys._getframe(1).f_globals.get("__name__")
    if native.core is not None and caller in _FORK_SERVERS:
        stack = native.core.stack()
        if stack:
            data[_ASKED_FROM] = (*native.core.identity(), stack)


def _prepared(data: Any) -> None:
    """prepare, in the new process."""
    *log, stack = data.pop(_ASKED_FROM, (None, 0))
    if native.core is not None and tuple(log) == native.core.identity():
        native.core.asked_from(stack)


def _name_late(module: ModuleType) -> None:
    """Tracing begins in a process that multiprocessing has started before."""
    process = module.process.current_process()
    if type(process).__name__ != "_MainProcess":
        _name(process)


def instrument_of(library: str) -> Instrument:
    """The instrument for multiprocessing, or for a copy of it."""
    return Instrument(
        library,
        version=lambda module: None,
        targets=(
            Target("BaseProcess._bootstrap", module=f"{library}.process", hands_over=MARKS, details=_name),
            Target("get_preparation_data", module=f"{library}.spawn", hands_over=MARKS, after=_asked),
            Target("prepare", module=f"{library}.spawn", hands_over=MARKS, details=_prepared),
            *targets_of(library),
        ),
        arm=_name_late,
    )


instrument = instrument_of("multiprocessing")
