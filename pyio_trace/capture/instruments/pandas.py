"""pandas: readers and writers of whole frames, and of chunks of them.

A frame's size in memory and its size in the file differ in every format, so
these rows have no bytes.  The rows below have them: those of the file objects,
pyarrow or HDF5 that pandas reads and writes through.  Reading from and writing
to memory has no row.
"""

from __future__ import annotations

import os
import sys
from _io import BytesIO, StringIO

from pyio_trace.capture.instrumentation.instrument import Instrument, Target
from pyio_trace.capture.instrumentation.weak_id_map import WeakIdMap
from pyio_trace.capture.instruments._files import path_of, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Details = dict[str, object]

#: Arguments that say how a frame is read or written; shown if the program gives them.
_SHOWN = (
    "sep", "delimiter", "usecols", "columns", "nrows", "skiprows", "chunksize", "iterator", "compression", "engine",
    "memory_map", "low_memory", "dtype_backend", "orient", "lines", "mode", "key", "format", "complevel", "complib",
    "sheet_name", "index", "header", "encoding", "protocol", "row_group_size", "partition_cols", "start", "stop",
    "append", "data_columns", "fsync",
)  # fmt: skip
#: Types of values that are shown as they are; of others, the type is shown.
_PLAIN = (str, int, float, bool, list, tuple)
#: Shown under other names: "columns" is the number of columns.
_CALLED = {"columns": "names"}

#: The paths of readers that return chunks.
_paths = WeakIdMap()


# ---- paths -------------------------------------------------------------------------------


def _file(value: Any) -> object:
    """What a reader or writer was given, as Target.path allows; NotImplemented if it is in memory."""
    if value is None or isinstance(value, (BytesIO, StringIO)):
        return NotImplemented
    if isinstance(value, str):
        return os.path.expanduser(plain(value)) if str.startswith(value, "~") else plain(value)
    kind = type(value).__name__
    if kind == "HDFStore":
        return value.filename
    if kind == "ExcelFile":
        return _file(value._io)
    if kind.endswith("Writer"):  # one of ExcelWriter's
        return _paths.get(value)
    return value


def _at(index: int, name: str) -> Callable[..., object]:
    """path= for the argument at this position or of this name."""

    def path(*args: Any, **kwargs: Any) -> object:
        return _file(args[index] if len(args) > index else kwargs.get(name))

    return path


def _of_reader(reader: Any, *args: Any, **kwargs: Any) -> object:
    return _paths.get(reader)


def _of_store(store: Any, *args: Any, **kwargs: Any) -> object:
    return store.filename


def _set_path(reader: object, path: object) -> None:
    name = path_of(path)  # do not keep a file object alive
    if name is not None:
        name = os.fsdecode(name)
        _paths.set(reader, name if "://" in name else os.path.abspath(name))


# ---- details -----------------------------------------------------------------------------


def _options(kwargs: dict[str, Any]) -> Details:
    found: Details = {}
    for name in _SHOWN:
        value = kwargs.get(name)
        if value is not None:
            if type(value) is dict:  # compression={"method": "zstd", "level": 3}
                value = value.get("method")
            found[_CALLED.get(name, name)] = value if type(value) in _PLAIN else type(value).__name__
    return found


def _shape(frame: Any) -> Details:
    """The shape of a frame or series; other objects, which a pickle may contain, are not asked."""
    if not issubclass(type(frame), sys.modules["pandas.core.generic"].NDFrame):
        return {}
    shape = frame.shape
    return {"rows": shape[0], "columns": shape[1] if len(shape) > 1 else 1}


def _reading(*args: Any, **kwargs: Any) -> Details:
    return _options(kwargs)


def _read(index: int, name: str) -> Callable[..., Details]:
    """after= for a reader: the shape of the frame, or that it returns chunks."""

    def after(result: Any, *args: Any, **kwargs: Any) -> Details:
        if isinstance(result, dict):
            return {"sheets": len(result)}
        if isinstance(result, list):
            return {"tables": len(result)}
        if _returns_chunks(type(result)):
            _set_path(result, _file(args[index] if len(args) > index else kwargs.get(name)))
            return {"chunks": True}
        return _shape(result)

    return after


def _returns_chunks(kind: type) -> bool:
    if kind.__module__.partition(".")[0] != "pandas":
        return kind.__name__ == "generator"  # a query's
    return (hasattr(kind, "__next__") or hasattr(kind, "__iter__")) and not hasattr(kind, "shape")


def _chunk(result: Any, *args: Any, **kwargs: Any) -> Details:
    return _shape(result)


def _writing(frame: Any, *args: Any, **kwargs: Any) -> Details:
    shape = _shape(frame)
    kind = {"object": "Series"} if shape and frame.ndim == 1 else {}
    return {**shape, **kind, **_options(kwargs)}


def _storing(store: Any, key: Any, value: Any = None, *args: Any, **kwargs: Any) -> Details:
    return {"key": key if isinstance(key, str) else None, **_shape(value), **_options(kwargs)}


def _selecting(store: Any, key: Any = None, *args: Any, **kwargs: Any) -> Details:
    return {**({"key": key} if isinstance(key, str) else {}), **_options(kwargs)}


def _writer_made(result: Any, writer: Any, path: Any, *args: Any, **kwargs: Any) -> Details:
    _set_path(writer, path)
    return {}


# ---- the table -----------------------------------------------------------------------------------

#: By function of pandas: its argument that has the path.
_READERS = {
    "read_csv": "filepath_or_buffer",
    "read_table": "filepath_or_buffer",
    "read_fwf": "filepath_or_buffer",
    "read_parquet": "path",
    "read_json": "path_or_buf",
    "read_pickle": "filepath_or_buffer",
    "read_feather": "path",
    "read_hdf": "path_or_buf",
    "read_excel": "io",
    "read_stata": "filepath_or_buffer",
    "read_sas": "filepath_or_buffer",
    "read_spss": "path",
    "read_orc": "path",
    "read_xml": "path_or_buffer",
    "read_html": "io",
}

#: By class that has the method: methods, and their argument that has the path.
_WRITERS = {
    ("pandas.core.generic", "NDFrame"): {
        "to_csv": "path_or_buf",
        "to_json": "path_or_buf",
        "to_hdf": "path_or_buf",
        "to_excel": "excel_writer",
        "to_latex": "buf",
    },
    ("pandas.core.frame", "DataFrame"): {
        "to_parquet": "path",
        "to_feather": "path",
        "to_stata": "path",
        "to_orc": "path",
        "to_xml": "path_or_buffer",
        "to_html": "buf",
        "to_string": "buf",
        "to_markdown": "buf",
    },
}

#: By module: what gives the next chunk of a reader.
_CHUNKS = {
    "pandas.io.parsers.readers": ("TextFileReader.get_chunk",),
    "pandas.io.json._json": ("JsonReader.__next__",),
    "pandas.io.stata": ("StataReader.__next__", "StataReader.get_chunk"),
    "pandas.io.sas.sas7bdat": ("SAS7BDATReader.__next__",),
    "pandas.io.sas.sas_xport": ("XportReader.__next__", "XportReader.get_chunk"),
}

#: ExcelWriter's subclasses, by module; the class itself makes one of these.
_EXCEL = {"_openpyxl": "OpenpyxlWriter", "_xlsxwriter": "XlsxWriter", "_odswriter": "ODSWriter"}


def _frames() -> tuple[Target, ...]:
    readers = [
        Target(name, path=_at(0, path), details=_reading, after=_read(0, path), optional=True)
        for name, path in _READERS.items()
    ]
    writers = [
        # Series have them too; users know the frame's
        Target(f"{owner}.{name}", module=module, name=f"DataFrame.{name}", path=_at(1, path), details=_writing,
               optional=True)
        for (module, owner), methods in _WRITERS.items() for name, path in methods.items()
    ]  # fmt: skip
    chunks = [
        Target(where, module=module, path=_of_reader, after=_chunk, optional=True)
        for module, names in _CHUNKS.items()
        for where in names
    ]
    # a frame's own method goes on to the function
    pickles = Target("to_pickle", path=_at(1, "filepath_or_buffer"), details=_writing)
    return (*readers, *writers, *chunks, pickles)


def _files() -> tuple[Target, ...]:
    def store(method: str, **rest: Any) -> Target:
        return Target(f"HDFStore.{method}", module="pandas.io.pytables", **{"path": _of_store, **rest})

    def excel(method: str, **rest: Any) -> Target:
        return Target(f"ExcelFile.{method}", module="pandas.io.excel._base", **{"path": _at(0, "self"), **rest})

    return (
        excel("__init__", name="pandas.ExcelFile", path=_at(1, "path_or_buffer")),
        excel("parse", details=_selecting, after=_read(0, "self")),
        excel("close"),
        *(
            Target(f"{kind}.__init__", module=f"pandas.io.excel.{module}", name="pandas.ExcelWriter",
                   path=_at(1, "path"), after=_writer_made, optional=True)
            for module, kind in _EXCEL.items()
        ),
        Target("ExcelWriter.close", module="pandas.io.excel._base", path=_of_reader),
        store("__init__", name="pandas.HDFStore", path=_at(1, "path")),
        *(store(name, details=_selecting, after=_read(0, "self")) for name in ("get", "select", "select_column")),
        *(store(name, details=_storing) for name in ("put", "append")),
        store("remove", details=_selecting),
        store("flush", details=_selecting),
        store("close"),
    )  # fmt: skip


instrument = Instrument("pandas", minimum="2.0", targets=(*_frames(), *_files()))
