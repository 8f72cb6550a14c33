"""What a command sets for its own process, so that it starts sooner and reads a log faster.

Only commands do this; a program that imports pyio_trace manages its own process.
"""

from __future__ import annotations

import gc
import os
import sys
from ctypes import CDLL

#: Numbers of mallopt() in glibc, and their values: bytes from which an array has a mapping of its own, bytes that are
#: kept, and one pool for all threads, as arrays go from one to the other.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
_OPTIONS = {_MMAP_THRESHOLD: 8 << 20, _TRIM_THRESHOLD: 64 << 20, _ARENA_MAX: 1}
#: Objects that may be made before Python looks for garbage.  Its own number makes it look hundreds of times while
#: modules are imported, which is a tenth of that time.
_OBJECTS = 200_000


def set_up() -> None:
    """Settings for a process that does nothing but one command."""
    keep_freed_memory()
    gc.set_threshold(_OBJECTS)
    if "numpy" not in sys.modules:
        # Its OpenBLAS would start threads that wait in a loop; nothing here uses it.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def keep_freed_memory() -> None:
    """Makes the C library keep freed memory for the next array.

    A command's arrays come and go in batches.  By default each goes back to the
    kernel, which clears the pages of the next one: a fifth of the time of reading a
    log.  Does nothing if the C library has no mallopt().
    """
    try:
        mallopt = CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    for option, value in _OPTIONS.items():
        mallopt(option, value)


def do_without_pandas() -> None:
    """Makes pyarrow convert values without pandas until it is asked for a DataFrame.

    With the first value that it converts, pyarrow imports pandas wherever that is
    installed, to tell pandas objects: a third of a second.  It tries only once.
    Neither does it need dateutil, to tell objects of that, or cloudpickle, to pickle
    functions.
    """
    finder = _Hidden()
    sys.meta_path.insert(0, finder)
    try:
        import pyarrow as pa

        pa.scalar(0)
    finally:
        sys.meta_path.remove(finder)


class _Hidden:
    """Finds that a package is not there."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name.partition(".")[0] in ("cloudpickle", "dateutil", "pandas"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
