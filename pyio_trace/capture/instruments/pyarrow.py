"""pyarrow: Parquet, IPC, datasets, CSV, JSON, Feather, ORC, its own files and filesystems.

Arrow reads and writes mostly in C++, on threads of its own, where no span of a
Python thread is open.  The rows of these calls name the file
(_pyarrow_places.py), so the join can tell which call an operation on such a
thread belongs to.  A call on a reader of bytes in memory, or on a reader whose
making was not seen, has no row.

Bytes are those of the program's tables, in memory; `stored` has the size in the
file (_pyarrow_details.py).  Over a Python file object there are none, because
the object's own rows have them.
"""

from __future__ import annotations

from pyio_trace.capture.instrumentation.instrument import Instrument, Target
from pyio_trace.capture.instruments import _pyarrow_details as about
from pyio_trace.capture.instruments._pyarrow_places import (
    Place,
    argument,
    note,
    noted,
    place_of,
    place_of_dataset,
    sink_of,
    source_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Details = dict[str, object]

PARQUET, IPC, LIB, FS = "pyarrow.parquet.core", "pyarrow.ipc", "pyarrow.lib", "pyarrow._fs"
DATASET, CSV, JSON, FEATHER, ORC = "pyarrow._dataset", "pyarrow._csv", "pyarrow._json", "pyarrow.feather", "pyarrow.orc"
_DATA = ("table", "data", "df", "batch", "table_or_batch")

# ---- paths and bytes -----------------------------------------------------------------------------


def _path(place: Place | None) -> object:
    return NotImplemented if place is None else place.path


def _moved(place: Place | None, data: Any) -> int | None:
    """The table's bytes, if no row below has them."""
    size = getattr(data, "nbytes", None) if place is not None and place.moves else None
    return size if isinstance(size, int) else None


def _steps_count(place: Place | None) -> int | None:
    """For moved= of targets with steps: whether the bytes of the iterator's steps count."""
    return 0 if place is not None and place.moves else None


def _got(result: Any, *args: Any, **kwargs: Any) -> Details:
    return about.shape_of(result)


# ---- functions: (source, ...) -> table; (table, where, ...) ---------------------------------------


def _source_path(*args: Any, **kwargs: Any) -> object:
    return _path(source_of(args, kwargs))


def _source_moved(result: Any, *args: Any, **kwargs: Any) -> int | None:
    return _moved(source_of(args, kwargs), result)


def _mapping_noted(result: Any, *args: Any, **kwargs: Any) -> Details:
    place = source_of(args, kwargs)
    if place is not None:
        note(result, Place(place.path, mapped=True))
    return {}


def _feather_moved(result: Any, *args: Any, **kwargs: Any) -> int | None:
    """Arrow's own format is mapped without a copy: its pages are read when they are used."""
    place = source_of(args, kwargs)
    mapped = argument(args, kwargs, 2, ("memory_map",)) or (place is not None and place.mapped)
    return None if mapped else _moved(place, result)


def _source_noted(result: Any, *args: Any, **kwargs: Any) -> Details:
    note(result, source_of(args, kwargs))
    return {}


def _columns(*args: Any, **kwargs: Any) -> Details:
    return about.names_of(argument(args, kwargs, 1, ("columns",)))


def _table_columns(*args: Any, **kwargs: Any) -> Details:
    return {**about.names_of(kwargs.get("columns")), **({} if kwargs.get("filters") is None else {"filtered": True})}


def _sink_path(*args: Any, **kwargs: Any) -> object:
    return _path(sink_of(args, kwargs))


def _sink_moved(result: Any, *args: Any, **kwargs: Any) -> int | None:
    return _moved(sink_of(args, kwargs), argument(args, kwargs, 0, _DATA))


def _sink_details(*args: Any, **kwargs: Any) -> Details:
    shown = ("compression", "row_group_size", "chunksize", "version")
    options: Details = {name: kwargs[name] for name in shown if name in kwargs}
    return {**about.shape_of(argument(args, kwargs, 0, _DATA)), **options}


# ---- objects made from a source: (self, source, ...), then (self, ...) -------------------


def _made_path(*args: Any, **kwargs: Any) -> object:
    return _path(source_of(args, kwargs, 1))


def _made_noted(result: Any, made: Any, *args: Any, **kwargs: Any) -> Details:
    note(made, source_of(args, kwargs))
    return {}


def _own_path(made: Any = None, *args: Any, **kwargs: Any) -> object:
    return _path(noted(made))


def _own_got(result: Any, made: Any, *args: Any, **kwargs: Any) -> int | None:
    return _moved(noted(made), result)


def _own_unmapped(result: Any, made: Any, *args: Any, **kwargs: Any) -> int | None:
    """Likewise of Arrow's own format, which is mapped without a copy."""
    place = noted(made)
    return None if place is not None and place.mapped else _moved(place, result)


def _own_given(result: Any, made: Any, *args: Any, **kwargs: Any) -> int | None:
    return _moved(noted(made), argument(args, kwargs, 0, _DATA))


def _given(*args: Any, **kwargs: Any) -> Details:
    return about.shape_of(argument(args, kwargs, 1, _DATA))


def _number(*args: Any, **kwargs: Any) -> Details:
    return {"batch": argument(args, kwargs, 1, ("i",))}


def _own_steps(result: Any, made: Any, *args: Any, **kwargs: Any) -> int | None:
    return _steps_count(noted(made))


# ---- datasets ------------------------------------------------------------------------------------


def _datasets_noted(result: Any, made: Any, *args: Any, **kwargs: Any) -> Details:
    place = source_of(args, kwargs)
    note(made, place)
    note(getattr(made, "_dataset", None), place)
    return {}


def _dataset_path(made: Any = None, *args: Any, **kwargs: Any) -> object:
    return _path(place_of_dataset(made))


def _dataset_got(result: Any, made: Any, *args: Any, **kwargs: Any) -> int | None:
    return _moved(place_of_dataset(made), result)


def _dataset_steps(result: Any, made: Any, *args: Any, **kwargs: Any) -> int | None:
    return _steps_count(place_of_dataset(made))


def _scan(*args: Any, **kwargs: Any) -> Details:
    filtered = {} if kwargs.get("filter") is None else {"filtered": True}
    options = {"batch_size": kwargs["batch_size"]} if "batch_size" in kwargs else {}
    return {**about.names_of(kwargs.get("columns")), **filtered, **options}


def _scanner_noted(result: Any, made: Any, *args: Any, **kwargs: Any) -> Details:
    note(result, place_of_dataset(made))
    return {}


def _counted(result: Any, *args: Any, **kwargs: Any) -> Details:
    return {"rows": result}


def _found(result: Any, *args: Any, **kwargs: Any) -> Details:
    note(result, source_of(args, kwargs))
    files = getattr(result, "files", None)
    return {} if files is None else {"files": len(files)}


def _data_details(*args: Any, **kwargs: Any) -> Details:
    format = kwargs.get("format")
    kind = format if isinstance(format, str) else getattr(format, "default_extname", None)
    return {**about.shape_of(argument(args, kwargs, 0, _DATA)), **({} if kind is None else {"format": kind})}


# ---- files and filesystems -----------------------------------------------------------------------


def _file_path(file: Any = None, *args: Any, **kwargs: Any) -> object:
    """No row for a read over a Python file object: there are many small ones, and the object has rows of its own."""
    place = noted(file)
    if place is not None:
        return place.path if place.moves else NotImplemented
    if type(file).__name__ in ("OSFile", "MemoryMappedFile") and not file.closed:
        return file.fileno()
    return NotImplemented


def _buffer_size(result: Any, file: Any, *args: Any, **kwargs: Any) -> int | None:
    """A buffer of a mapped file is a part of the mapping: nothing is read."""
    return None if type(file).__name__ == "MemoryMappedFile" else int(result.size)


def _in(filesystem: Any = None, *args: Any, **kwargs: Any) -> object:
    path = argument(args, kwargs, 0, ("path", "paths_or_selector", "src"))
    if hasattr(path, "base_dir"):  # a selector
        path = path.base_dir
    place = place_of(path, filesystem)
    return None if place is None else place.path


def _in_noted(result: Any, filesystem: Any, *args: Any, **kwargs: Any) -> Details:
    note(result, place_of(argument(args, kwargs, 0, ("path",)), filesystem))
    return {}


def _to(filesystem: Any = None, *args: Any, **kwargs: Any) -> Details:
    place = place_of(argument(args, kwargs, 1, ("dest",)), filesystem)
    return {} if place is None or not isinstance(place.path, str) else {"to": place.path}


# ---- the table -----------------------------------------------------------------------------------


def _parquet() -> tuple[Target, ...]:
    def target(where: str, **rest: Any) -> Target:
        name = rest.pop("name", None) or (None if "." in where else f"pyarrow.parquet.{where}")
        return Target(where, module=PARQUET, name=name, **rest)

    own = {"path": _own_path, "moved": _own_got, "kind": "read"}
    return (
        target("read_table", path=_source_path, details=_table_columns, after=_got, moved=_source_moved, kind="read"),
        target("read_metadata", path=_source_path, after=about.metadata_got),
        target("read_schema", path=_source_path),
        target("write_table", path=_sink_path, details=_sink_details, moved=_sink_moved, kind="write"),
        target("write_metadata", path=_sink_path),
        target("write_to_dataset", path=_sink_path, details=_sink_details, moved=_sink_moved, kind="write"),
        target("ParquetFile.__init__", name="pyarrow.parquet.ParquetFile", path=_made_path, after=about.opened),
        target("ParquetFile.read", after=about.read, **own),
        target("ParquetFile.read_row_group", after=about.read_group, **own),
        target("ParquetFile.read_row_groups", after=about.read_groups, **own),
        target(
            "ParquetFile.iter_batches", path=_own_path, details=about.batches, moved=_own_steps,
            steps="ParquetFile.iter_batches.__next__",
        ),
        target("ParquetFile.scan_contents", path=_own_path),
        target("ParquetFile.close", path=_own_path),
        target(
            "ParquetWriter.__init__", name="pyarrow.parquet.ParquetWriter", path=_made_path,
            details=about.writer_making, after=about.writer_made,
        ),
        target("ParquetWriter.write_table", path=_own_path, details=_given, moved=_own_given, kind="write"),
        target("ParquetWriter.write_batch", path=_own_path, details=_given, moved=_own_given, kind="write"),
        target("ParquetWriter.close", path=_own_path, after=about.written),
        target(
            "ParquetDataset.__init__", name="pyarrow.parquet.ParquetDataset", path=_made_path, after=_datasets_noted
        ),
        target("ParquetDataset.read", path=_own_path, after=_got, moved=_own_got, kind="read"),
    )  # fmt: skip


def _ipc() -> tuple[Target, ...]:
    made = [
        Target(f"{name}.__init__", module=IPC, name=f"pyarrow.ipc.{name}", path=_made_path, after=_made_noted)
        for kind in ("File", "Stream")
        for name in (f"RecordBatch{kind}Reader", f"RecordBatch{kind}Writer")
    ]

    def own(where: str, **rest: Any) -> Target:
        return Target(where, module=LIB, name=where.lstrip("_").replace("CRecord", "Record"), path=_own_path, **rest)

    def reads(where: str, **rest: Any) -> Target:
        return own(where, after=_got, moved=_own_unmapped, kind="read", **rest)

    def writes(where: str) -> Target:
        return own(where, details=_given, moved=_own_given, kind="write")

    return (
        *made,
        reads("_RecordBatchFileReader.read_all"),
        reads("_RecordBatchFileReader.get_batch", details=_number),
        reads("_RecordBatchFileReader.get_batch_with_custom_metadata", details=_number, optional=True),
        own("_RecordBatchFileReader.count_rows", after=_counted, optional=True),
        reads("RecordBatchReader.read_all"),
        reads("RecordBatchReader.read_next_batch"),
        reads("RecordBatchReader.read_next_batch_with_custom_metadata", optional=True),
        own("RecordBatchReader.close"),
        writes("_CRecordBatchWriter.write_table"),
        writes("_CRecordBatchWriter.write_batch"),
        own("_CRecordBatchWriter.close"),
    )


def _datasets() -> tuple[Target, ...]:
    targets = [
        Target("dataset", module="pyarrow.dataset", name="pyarrow.dataset.dataset", path=_source_path, after=_found),
        Target(
            "write_dataset", module="pyarrow.dataset", name="pyarrow.dataset.write_dataset", path=_sink_path,
            details=_data_details, moved=_sink_moved, kind="write",
        ),
    ]  # fmt: skip
    for owner in ("Dataset", "Fragment", "Scanner"):
        targets += [
            Target(
                f"{owner}.{name}", module=DATASET, path=_dataset_path, details=_scan, after=_got,
                moved=_dataset_got, kind="read",
            )
            for name in ("to_table", "head", "take")
        ]  # fmt: skip
        targets.append(Target(f"{owner}.count_rows", module=DATASET, path=_dataset_path, details=_scan, after=_counted))
        # the others' go on to the scanner's
        steps = {"moved": _dataset_steps, "steps": "Scanner.to_batches.__next__"}
        iterates: dict[str, Any] = steps if owner == "Scanner" else {}
        targets.append(Target(f"{owner}.to_batches", module=DATASET, path=_dataset_path, details=_scan, **iterates))
    targets += [  # their own methods go on to these
        Target(
            f"Scanner.from_{owner.lower()}", module=DATASET, name=f"{owner}.scanner", path=_dataset_path,
            details=_scan, after=_scanner_noted,
        )
        for owner in ("Dataset", "Fragment")
    ]  # fmt: skip
    targets.append(Target("Scanner.to_reader", module=DATASET, path=_dataset_path, after=_scanner_noted))
    return tuple(targets)


def _text_and_others() -> tuple[Target, ...]:
    def target(where: str, module: str, **rest: Any) -> Target:
        name = None if "." in where else f"pyarrow.{module.rpartition('.')[2].lstrip('_')}.{where}"
        return Target(where, module=module, name=rest.pop("name", name), **rest)

    reads = {"path": _source_path, "after": _got, "moved": _source_moved, "kind": "read"}
    writes = {"path": _sink_path, "details": _sink_details, "moved": _sink_moved, "kind": "write"}
    return (
        target("read_csv", CSV, **reads),
        target("open_csv", CSV, path=_source_path, after=_source_noted),
        target("write_csv", CSV, **writes),
        target("read_json", JSON, **reads),
        target("open_json", JSON, path=_source_path, after=_source_noted, optional=True),
        target("read_table", FEATHER, details=_columns, **{**reads, "moved": _feather_moved}),
        target("read_feather", FEATHER, path=_source_path, details=_columns, after=_got),
        target("write_feather", FEATHER, **writes),
        target("read_table", ORC, details=_columns, **reads),
        target("write_table", ORC, **writes),
        target("ORCFile.__init__", ORC, name="pyarrow.orc.ORCFile", path=_made_path, after=_made_noted),
        target("ORCFile.read", ORC, path=_own_path, details=_columns, after=_got, moved=_own_got, kind="read"),
        target("ORCFile.read_stripe", ORC, path=_own_path, after=_got, moved=_own_got, kind="read"),
        target("ORCWriter.__init__", ORC, name="pyarrow.orc.ORCWriter", path=_made_path, after=_made_noted),
        target("ORCWriter.write", ORC, path=_own_path, details=_given, moved=_own_given, kind="write"),
        target("ORCWriter.close", ORC, path=_own_path),
    )


def _files() -> tuple[Target, ...]:
    def lib(where: str, **rest: Any) -> Target:
        return Target(where, module=LIB, **{"path": _source_path, **rest})

    def fs(where: str, **rest: Any) -> Target:
        return Target(f"FileSystem.{where}", module=FS, path=_in, **rest)

    reads = {"read": "len", "read_at": "len", "readinto": "result", "read_buffer": _buffer_size}
    return (
        lib("memory_map", after=_mapping_noted),
        lib("input_stream", after=_source_noted),
        lib("output_stream", after=_source_noted),
        *(lib(f"NativeFile.{name}", path=_file_path, moved=moved, kind="read") for name, moved in reads.items()),
        lib("NativeFile.write", path=_file_path, moved="result", kind="write"),
        *(lib(f"NativeFile.{name}", path=_file_path) for name in ("flush", "close", "download", "upload")),
        *(
            fs(f"open_{name}", after=_in_noted)
            for name in ("input_file", "input_stream", "output_stream", "append_stream")
        ),
        *(fs(name) for name in ("get_file_info", "create_dir", "delete_dir", "delete_dir_contents", "delete_file")),
        fs("copy_file", details=_to),
        fs("move", details=_to),
    )


instrument = Instrument(
    "pyarrow",
    minimum="14.0",
    targets=(*_parquet(), *_ipc(), *_datasets(), *_text_and_others(), *_files()),
)
