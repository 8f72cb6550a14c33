"""Ray: the tasks and actor methods that a worker runs, the files of ray.data, and spilled objects; what a worker is
called.

Compiled code without a Python name runs tasks, and a task is more than one call
of the user's function: a generator goes on after the call has returned.  So a
task's span begins and ends where the worker records the position of its log
(Worker.record_task_log_start and _end), right before and after the task, on the
thread that runs it.  In actors with coroutines, tasks only wait at that place,
and the work is done in the actor's event loop.  There, the function that Ray
makes around each method is watched, and for asynchronous generators the event
loop's hook for their first step.
"""

from __future__ import annotations

import sys

from pyio_trace import native
from pyio_trace.capture.instrumentation import instrument_registry
from pyio_trace.capture.instrumentation.instrument import MARKS, Instrument, Target
from pyio_trace.capture.instrumentation.weak_id_map import address
from pyio_trace.enums import Layer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


_ASYNC_GENERATOR = 0x200  # inspect.CO_ASYNC_GENERATOR

_MOST_FUNCTIONS = 2  # in a worker's name
_SHOWN_OF_ID = 6  # digits

_functions: list[str] = []  # that this worker was seen to run; one more than its name has
_tasks: dict[int, native.core.Span] = {}  # by thread id
_methods: dict[int, list[native.core.Span]] = {}  # by thread id: in actors with coroutines
_generators: dict[str, tuple[int, str, str]] = {}  # by task: the generator's id(), and its span's name and detail


# ---- tasks and methods -----------------------------------------------------------------


def _name_worker(worker: Any) -> None:
    """Call this process what it runs: an actor's class and the beginning of its id, or the functions of its tasks."""
    function = worker.current_task_name
    if function in _functions or len(_functions) > _MOST_FUNCTIONS or function.startswith("pyio_trace."):
        return
    assert native.core is not None  # it has called this
    _functions.append(function)
    actor_id = worker.actor_id
    if actor_id.is_nil():
        more = ", ..." if len(_functions) > _MOST_FUNCTIONS else ""
        native.core.name_process("Ray worker", f"Ray {', '.join(_functions[:_MOST_FUNCTIONS])}{more}")
    else:
        actor = worker.actors.get(actor_id)  # None while its __init__ runs
        kind = function.partition(".")[0] if actor is None else type(actor).__name__
        native.core.name_process("Ray actor", f"Ray {kind} (actor {actor_id.hex()[:_SHOWN_OF_ID]})")


def _task_begins(worker: Any, task_id: Any, attempt_number: int, *args: Any) -> None:
    _name_worker(worker)
    _task_ends()  # if its end was not seen because tracing was paused
    if worker.core_worker.current_actor_is_asyncio():
        return
    span = _begin(*_described(worker, task_id.hex(), attempt_number))
    if span is not None:
        _tasks[_thread_id()] = span


def _task_ends(worker: Any = None, task_id: Any = None, *args: Any) -> None:
    span = _tasks.pop(_thread_id(), None)
    if span is not None:
        span.end()
    elif _generators and task_id is not None:
        _generators.pop(task_id.hex(), None)


def _described(worker: Any, task: str, attempt: int | None) -> tuple[str, str]:
    """The name and detail of the span for what this thread of the worker runs now."""
    import json  # Ray has it

    details: dict[str, object] = {"name": worker.current_task_name, "task": task}
    if attempt:
        details["attempt"] = attempt
    actor_id = worker.actor_id
    if actor_id.is_nil():
        return "ray.task", json.dumps(details)
    details["actor"] = actor_id.hex()
    details["class"] = type(worker.actors.get(actor_id)).__name__
    return "ray.actor_task", json.dumps(details)


def _begin(name: str, detail: str) -> native.core.Span | None:
    assert native.core is not None  # it has called this
    span: native.core.Span = native.core.Span()
    return span if span.begin(name, Layer.APP, None, detail) else None


# ---- methods of actors with coroutines -------------------------------------------------


def _executor_made(executor: Any, *args: Any, **kwargs: Any) -> None:
    if native.core is None:
        return
    flags = getattr(getattr(executor.method, "__code__", None), "co_flags", 0)
    if flags & _ASYNC_GENERATOR:
        native.core.watch(executor, "ray.actor_task", after=_generator_made, role=MARKS)
    else:
        native.core.watch(executor, "ray.actor_task", details=_method_begins, after=_method_ends, role=MARKS)


def _method_begins(actor: Any, *args: Any, **kwargs: Any) -> None:
    worker = _worker()
    if not worker.core_worker.current_actor_is_asyncio():
        return
    span = _begin(*_described(worker, worker.current_task_id.hex(), None))
    if span is not None:
        _methods.setdefault(_thread_id(), []).append(span)


def _method_ends(result: Any, *args: Any, **kwargs: Any) -> None:
    spans = _methods.get(_thread_id())
    if not spans:
        return
    span = spans.pop()
    if not spans:
        del _methods[_thread_id()]
    task = _asyncio_task() if hasattr(result, "cr_frame") else None
    if task is None:
        span.end()
    else:  # a coroutine, which is going to run in that asyncio task
        _end_with(task, span)


def _generator_made(result: Any, *args: Any, **kwargs: Any) -> None:
    worker = _worker()
    if result is not None and worker.core_worker.current_actor_is_asyncio():
        task = worker.current_task_id.hex()
        _generators[task] = (address(result), *_described(worker, task, None))


def _generator_begins(loop: Any, generator: Any) -> None:
    """An asynchronous generator takes its first step, in the asyncio task that will take all of them."""
    number = address(generator) if _generators else 0
    known = next((known for known in tuple(_generators.values()) if known[0] == number), None)
    task = _asyncio_task() if known is not None else None
    span = _begin(*known[1:]) if known is not None and task is not None else None
    if span is not None:
        _end_with(task, span)


def _worker() -> Any:
    return sys.modules["ray._private.worker"].global_worker


def _end_with(task: Any, span: native.core.Span) -> None:
    from functools import partial

    end: Any = span.end
    task.add_done_callback(partial(end, None, 0, None))  # it is also passed the task, and ignores it


def _asyncio_task() -> Any:
    """The running task of asyncio's own loop or uvloop's; other loops do not carry spans from step to step."""
    loop = sys.modules["asyncio"]._get_running_loop()
    module = "" if loop is None else type(loop).__module__
    if not module.startswith("asyncio.") and (module != "uvloop" or not instrument_registry.carries("uvloop.loop")):
        return None
    return sys.modules["asyncio"].current_task()


def _thread_id() -> int:
    import _thread  # built in, so it is always there

    return _thread.get_ident()


# ---- ray.data --------------------------------------------------------------------------


def _source(source: Any, *args: Any, **kwargs: Any) -> dict[str, object]:
    return {"source": type(source).__name__}


def _read_task(task: Any) -> dict[str, object]:
    metadata = task.metadata
    return {"files": list(metadata.input_files or ())[:16], "rows": metadata.num_rows, "bytes": metadata.size_bytes}


def _sink_path(sink: Any, *args: Any, **kwargs: Any) -> object:
    return getattr(sink, "path", None)


def _sink(sink: Any, *args: Any, **kwargs: Any) -> dict[str, object]:
    return {"sink": type(sink).__name__}


def _block(sink: Any, block: Any, *args: Any, **kwargs: Any) -> dict[str, object]:
    return {**_sink(sink), "rows": block.num_rows(), "bytes": block.size_bytes()}


_FILES = "ray.data.datasource.file_based_datasource"
_SINKS = "ray.data.datasource.file_datasink"
_PARQUET = "ray.data._internal.datasource.parquet_datasink"


# ---- spilling --------------------------------------------------------------------------


def _spilled(result: Any, *args: Any, **kwargs: Any) -> int:
    """The sum of the sizes in URLs such as b"/folder/file?offset=0&size=4096"."""
    return sum(int(url.decode().rpartition("size=")[2]) for url in result)


_SPILL = "ray._private.external_storage"

instrument = Instrument(
    "ray",
    minimum="2.46",
    below="3",
    disarm=_functions.clear,
    targets=(
        Target("Worker.record_task_log_start", module="ray._private.worker", details=_task_begins, hands_over=MARKS),
        Target("Worker.record_task_log_end", module="ray._private.worker", details=_task_ends, hands_over=MARKS),
        Target(
            "FunctionActorManager._make_actor_method_executor",
            module="ray._private.function_manager",
            after=_executor_made,
            hands_over=MARKS,
        ),
        Target(
            "BaseEventLoop._asyncgen_firstiter_hook",
            module="asyncio.base_events",
            details=_generator_begins,
            hands_over=MARKS,
        ),
        Target(
            "Loop._asyncgen_firstiter_hook",
            module="uvloop.loop",
            details=_generator_begins,
            hands_over=MARKS,
            optional=True,
        ),
        # where a program, or a task, waits for what tasks return: ray.get() calls it
        Target("Worker.get_objects", module="ray._private.worker", name="ray.get", kind="wait", optional=True),
        Target("ReadTask.__call__", module="ray.data.datasource.datasource", details=_read_task),
        Target("FileBasedDatasource._open_input_source", module=_FILES, path="path", details=_source),
        Target("_FileDatasink.open_output_stream", module=_SINKS, path="path", details=_sink),
        Target("RowBasedFileDatasink.write_block", module=_SINKS, path=_sink_path, details=_block),
        Target("BlockBasedFileDatasink.write_block", module=_SINKS, path=_sink_path, details=_block),
        Target("ParquetDatasink.write", module=_PARQUET, path=_sink_path, details=_sink),
        Target("FileSystemStorage.spill_objects", module=_SPILL, kind="write", moved=_spilled),
        Target("FileSystemStorage.restore_spilled_objects", module=_SPILL, kind="read", moved="result"),
    ),
)
