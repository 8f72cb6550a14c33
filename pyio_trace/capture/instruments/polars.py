"""polars: what is read into a frame, what is scanned and collected, what is written.

polars reads in threads of its own, which have no Python stack, so without these
rows none of its I/O has a line.  A frame's size in memory is not its size in the
file: the rows have no bytes, those below have.  Reading from and writing to
memory has no row.

Every operation on a frame goes through LazyFrame.collect.  It has a row only if the
program calls it directly and has scanned a file before: most other calls only
compute.
"""

from __future__ import annotations

import os
import sys
from _io import BytesIO, StringIO

from pyio_trace.capture.instrumentation.instrument import Instrument, Target
from pyio_trace.capture.instruments._files import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Details = dict[str, object]

_MOST_NAMES = 32
_has_scanned = False


def disarm() -> None:
    """Tracing has stopped."""
    global _has_scanned
    _has_scanned = False


# ---- paths -------------------------------------------------------------------------------


def _file(value: Any) -> object:
    """What a reader or writer was given, as Target.path allows; NotImplemented if it is in memory."""
    if value is None or isinstance(value, (BytesIO, StringIO, bytes)):  # bytes are a file's content
        return NotImplemented
    if isinstance(value, str):
        return os.path.expanduser(plain(value)) if str.startswith(value, "~") else plain(value)
    return value


def _source(source: Any = None, *args: Any, **kwargs: Any) -> object:
    return _file(source)


def _written(frame: Any, file: Any = None, *args: Any, **kwargs: Any) -> object:
    return _file(file if file is not None else kwargs.get("path"))


def _scanning(source: Any = None, *args: Any, **kwargs: Any) -> object:
    """The path, for a call by the program: read_csv() and others scan, too."""
    global _has_scanned
    if _is_in_polars(sys._getframe(1)):
        return NotImplemented
    _has_scanned = True
    return _file(source)


def _collecting(frame: Any, *args: Any, **kwargs: Any) -> object:
    """None for a call by the program, after a scan: it has no single path."""
    return None if _has_scanned and not _is_in_polars(sys._getframe(1)) else NotImplemented


def _is_in_polars(caller: Any) -> bool:
    name = caller.f_globals.get("__name__")
    return isinstance(name, str) and name.partition(".")[0] == "polars"


# ---- details -----------------------------------------------------------------------------


def _reading(source: Any = None, *args: Any, **kwargs: Any) -> Details:
    names: Any = kwargs.get("columns", args[0] if args else None)
    found: Details = {}
    if type(names) in (list, tuple):
        found["names"] = [name if type(name) is str else type(name).__name__ for name in names[:_MOST_NAMES]]
    if type(kwargs.get("n_rows")) is int:
        found["nrows"] = kwargs["n_rows"]
    return found


def _shape(result: Any, *args: Any, **kwargs: Any) -> Details:
    if type(result) is not sys.modules["polars"].DataFrame:
        return {}
    return {"rows": result.height, "columns": result.width}


def _writing(frame: Any, *args: Any, **kwargs: Any) -> Details:
    compression = kwargs.get("compression")
    return {**_shape(frame), **({"compression": compression} if type(compression) is str else {})}


# ---- the table ---------------------------------------------------------------------------

_READERS = (
    "read_csv", "read_parquet", "read_ndjson", "read_json", "read_ipc", "read_ipc_stream", "read_avro", "read_excel",
)  # fmt: skip
_SCANS = ("scan_csv", "scan_parquet", "scan_ndjson", "scan_ipc")
_WRITERS = ("write_csv", "write_parquet", "write_ndjson", "write_json", "write_ipc", "write_ipc_stream", "write_avro")
_SINKS = ("sink_csv", "sink_parquet", "sink_ndjson", "sink_ipc")
_FRAME, _LAZY = "polars.dataframe.frame", "polars.lazyframe.frame"

instrument = Instrument(
    "polars",
    minimum="1.0",
    disarm=disarm,
    targets=(
        *(Target(name, path=_source, details=_reading, after=_shape, optional=True) for name in _READERS),
        *(Target(name, path=_scanning, optional=True) for name in _SCANS),
        *(
            Target(f"DataFrame.{name}", module=_FRAME, path=_written, details=_writing, optional=True)
            for name in _WRITERS
        ),
        *(Target(f"LazyFrame.{name}", module=_LAZY, path=_written, optional=True) for name in _SINKS),
        Target("LazyFrame.collect", module=_LAZY, path=_collecting, after=_shape),
    ),
)
