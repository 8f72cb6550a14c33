"""The enumerations of csrc/core/format/log_*.h that describe an operation, and the words users see for them.

Each is written down here once; tests/log/test_layout.py compares them with those
headers.  A traced program may import this module, so it imports nothing, not even
enum.  What every program needs before its first line is in log_constants.py:
creating these classes takes longer than importing that.
"""

from __future__ import annotations


class Layer:
    """enum pt_layer: from the program down to the system calls."""

    APP, USER, HDF5, MPIIO, STDIO, POSIX = range(6)


class OpClass:
    """enum pt_class.  INTERNAL operations never reach the table, and no record has LOCK: the join gives it."""

    META, READ, WRITE, SYNC, COPY, MAP, OPEN, CLOSE, SEEK, SPAN, INTERNAL, PROCESS, LOCK = range(13)


class Link:
    """enum pt_link: how sure a row's parent is."""

    NONE, THREAD, CONTEXT, DESCRIPTOR, INFERRED = range(5)


class SpanKind:
    """enum pt_span_kind: what a span is."""

    NONE, REQUEST, WAIT, CONTAINER, STARTING = range(5)


class Role:
    """What an operation is to sums of time and bytes.  The first four are spans, the others calls with none inside.

    REQUEST asks storage for bytes or names; WAIT waits for another thread or
    process; CONTAINER only groups; STARTING starts what others wait for.  IO, SYNC
    (to storage) and LOCK are calls on files; TRANSPORT is a call on memory shared
    between processes; MAP maps files into memory; PROCESS starts a program.
    """

    NONE, REQUEST, WAIT, CONTAINER, STARTING, IO, SYNC, LOCK, TRANSPORT, MAP, PROCESS = range(11)


def _words(numbers: type) -> tuple[str, ...]:
    """The names in lower case, in the order of their numbers."""
    return tuple(name.lower() for name in vars(numbers) if name.isupper())


LAYERS: tuple[str, ...] = _words(Layer)
CLASSES: tuple[str, ...] = _words(OpClass)
LINKS: tuple[str, ...] = _words(Link)
ROLES: tuple[str, ...] = _words(Role)

#: Beginnings of the operations of Python's file objects.
FILE_OBJECTS = ("FileIO.", "Buffered", "TextIOWrapper.", "mmap.", "SpooledTemporaryFile.")
#: A callable that a thread of a ThreadPoolExecutor ran, while its program went on.
THREAD_TASK = "thread.task"
#: A callable that a process of a pool ran.
POOL_TASK = "pool.task"
#: The operations that are tasks: of Dask, of Ray, of a ProcessPoolExecutor, of a ThreadPoolExecutor.
TASKS = ("task", "ray.task", "ray.actor_task", POOL_TASK, THREAD_TASK)
