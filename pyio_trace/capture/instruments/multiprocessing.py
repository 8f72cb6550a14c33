"""multiprocessing: what each process is called, in the process table.  Its calls have no rows.

A process has a name of multiprocessing's (ForkPoolWorker-2) or of the program's.
Libraries that start processes by multiprocessing, such as PyTorch and Dask, know
better ones: their instruments name the process again.
"""

from __future__ import annotations

from pyio_trace import native
from pyio_trace.capture.instrumentation.instrument import MARKS, Instrument, Target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

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


def _name_late(module: ModuleType) -> None:
    """Tracing begins in a process that multiprocessing has started before."""
    process = module.process.current_process()
    if type(process).__name__ != "_MainProcess":
        _name(process)


instrument = Instrument(
    "multiprocessing",
    version=lambda module: None,
    targets=(Target("BaseProcess._bootstrap", module="multiprocessing.process", hands_over=MARKS, details=_name),),
    arm=_name_late,
)
