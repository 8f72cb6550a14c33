"""pyarrow: Parquet, IPC, datasets, CSV, JSON, Feather, ORC, its own files and filesystems.

Most of Arrow's reading and writing is C++ on threads of its own, which no span
of Python's is open on; what these rows do for it is to declare the file, so
that the join can tell whose an operation there is.  A reader does not know its
path afterwards.  So where one is made its path is noted here, beside a weak
reference; a call on a reader of none (of bytes in memory) is in no row.

Bytes are those of the tables that the program got or gave, in memory: what the
file has of them is in `stored`, where Arrow has the file's metadata in memory.
Over a Python file object there are none: the object's own rows have them.
"""

from __future__ import annotations

import os

from pyio_trace.capture.instrument import Instrument, Target
from pyio_trace.capture.remembered import Remembered

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    Details = dict[str, object]

PARQUET, IPC, LIB, FS = "pyarrow.parquet.core", "pyarrow.ipc", "pyarrow.lib", "pyarrow._fs"
DATASET, CSV, JSON, FEATHER, ORC = "pyarrow._dataset", "pyarrow._csv", "pyarrow._json", "pyarrow.feather", "pyarrow.orc"

#: `stored` is left out where it would have to be added up from more column chunks than these: 1 us each.
_CHUNKS_MOST = 1000

# ---- what readers and writers are of -----------------------------------------------------


class Place:
    """What a reader reads, a writer writes.  path: as the engine takes it; moves: its bytes are in no row below;
    plain: it is not encrypted, for all that one knows."""

    __slots__ = ("moves", "path", "plain")

    def __init__(self, path: object, moves: bool = True, plain: bool = True) -> None:
        self.path = path
        self.moves = moves
        self.plain = plain


_places = Remembered()


def _note(made: Any, place: Place | None, plain: bool = True) -> None:
    """From here on `made` is known to be of that place."""
    if place is None or made is None:
        return
    path = place.path
    if isinstance(path, (str, bytes)):
        kept: object = path if "://" in os.fsdecode(path) else os.path.abspath(path)
    elif isinstance(path, int):
        kept = path
    else:  # a file object is not to be kept alive, a list may change
        kept = getattr(path, "name", None)
        kept = kept if isinstance(kept, (str, bytes, int)) else ()
    _places.note(made, Place(kept, place.moves, plain))


def _noted(made: Any) -> Place | None:
    found: Place | None = _places.get(made)
    return found


def _place(source: Any, filesystem: Any = None) -> Place | None:
    """Of what a function of pyarrow's was given to read or write; None: bytes in memory, or not known."""
    if isinstance(source, (str, bytes)):
        return _within(filesystem, source)
    if hasattr(type(source), "__fspath__"):
        return _within(filesystem, os.fspath(source))
    noted = _noted(source)
    if noted is not None:
        return noted
    if type(source).__name__ in ("OSFile", "MemoryMappedFile"):
        return None if source.closed else Place(source.fileno())
    if isinstance(source, (list, tuple)):
        paths = [os.fspath(one) for one in source if isinstance(one, str) or hasattr(type(one), "__fspath__")]
        return _common([_within(filesystem, path) for path in paths])
    if type(source).__module__.startswith("pyarrow") or not hasattr(source, "read"):
        return Place(source, moves=False) if hasattr(source, "write") and not hasattr(source, "read") else None
    return Place(source, moves=False)


def _within(filesystem: Any, path: Any) -> Place:
    """A path in a filesystem of Arrow's or of fsspec's, or a URI; None: the machine's."""
    if filesystem is None:
        return Place(path)
    path = os.fsdecode(path)
    if isinstance(filesystem, str):
        return Place(f"{filesystem.rstrip('/')}/{path}")
    kind = getattr(filesystem, "type_name", None)
    if kind == "subtree":
        return _within(filesystem.base_fs, filesystem.base_path + path)
    if kind is not None and kind.startswith("py::"):
        inner = getattr(filesystem.handler, "fs", None)
        place = Place(f"{kind[4:]}://{path}") if inner is None else _within(inner, path)
        return Place(place.path, moves=False)
    if kind is None:  # fsspec's
        protocol = getattr(filesystem, "protocol", "")
        kind = protocol if isinstance(protocol, str) else protocol[0]
        return Place(path if kind in ("file", "local") else f"{kind}://{path}", moves=False)
    return Place(path if kind == "local" else f"{kind}://{path}")


def _common(places: list[Place]) -> Place | None:
    """The one of them, or the folder that all are in."""
    if len(places) < 2:
        return places[0] if places else None
    paths = [os.fsdecode(place.path) for place in places if isinstance(place.path, (str, bytes))]
    ends = [path if "://" in path else os.path.abspath(path) for path in (min(paths), max(paths))]
    folder = os.path.commonprefix(ends).rpartition("/")[0]  # noqa: RUF071  # URLs too, and back to a slash
    return Place(folder or None, all(place.moves for place in places))


def _path(place: Place | None) -> object:
    return NotImplemented if place is None else place.path


def _size(data: Any) -> int | None:
    size = getattr(data, "nbytes", None)
    return size if isinstance(size, int) else None


# ---- shapes ------------------------------------------------------------------------------


def _shape(data: Any) -> Details:
    """Of a table or batch, a data frame, or what else one may write."""
    rows = getattr(data, "num_rows", None)
    if rows is not None:
        return {"rows": rows, "columns": data.num_columns}
    shape: tuple[int, ...] = getattr(data, "shape", ())
    return {"rows": shape[0], "columns": shape[1]} if len(shape) == 2 else {}


def _names(columns: Any) -> Details:
    """The columns that were asked for; of expressions, the names they get."""
    if not isinstance(columns, (list, tuple, dict)):
        return {}
    return {"names": [name if isinstance(name, (str, int)) else str(name) for name in columns]}


def _got(result: Any, *args: Any, **kwargs: Any) -> Details:
    return _shape(result)


# ---- arguments: by place or by any of their names ------------------------------------------------

_FROM = ("source", "input_file", "where", "sink", "path", "path_or_paths")
_DATA = ("table", "data", "df", "batch", "table_or_batch")
_TO = ("where", "output_file", "dest", "root_path", "base_dir")


def _argument(args: tuple[Any, ...], kwargs: dict[str, Any], index: int, names: tuple[str, ...]) -> Any:
    """None: not given, so that the call is about to fail."""
    if len(args) > index:
        return args[index]
    for name in names:
        if name in kwargs:
            return kwargs[name]
    return None


def _source(args: tuple[Any, ...], kwargs: dict[str, Any], index: int = 0) -> Place | None:
    return _place(_argument(args, kwargs, index, _FROM), kwargs.get("filesystem"))


def _sink(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Place | None:
    return _place(_argument(args, kwargs, 1, _TO), kwargs.get("filesystem"))


# ---- functions: (source, ...) -> table; (table, where, ...) ---------------------------------------


def _source_path(*args: Any, **kwargs: Any) -> object:
    return _path(_source(args, kwargs))


def _source_moved(result: Any, *args: Any, **kwargs: Any) -> int | None:
    place = _source(args, kwargs)
    return _size(result) if place is not None and place.moves else None


def _source_noted(result: Any, *args: Any, **kwargs: Any) -> Details:
    _note(result, _source(args, kwargs))
    return {}


def _columns(*args: Any, **kwargs: Any) -> Details:
    return _names(_argument(args, kwargs, 1, ("columns",)))


def _table_columns(*args: Any, **kwargs: Any) -> Details:
    return {**_names(kwargs.get("columns")), **({} if kwargs.get("filters") is None else {"filtered": True})}


def _sink_path(*args: Any, **kwargs: Any) -> object:
    return _path(_sink(args, kwargs))


def _sink_moved(result: Any, *args: Any, **kwargs: Any) -> int | None:
    place = _sink(args, kwargs)
    return _size(_argument(args, kwargs, 0, _DATA)) if place is not None and place.moves else None


def _sink_details(*args: Any, **kwargs: Any) -> Details:
    told = ("compression", "row_group_size", "chunksize", "version")
    asked: Details = {name: kwargs[name] for name in told if name in kwargs}
    return {**_shape(_argument(args, kwargs, 0, _DATA)), **asked}


# ---- objects that were made of a source: (self, source, ...), then (self, ...) -------------------


def _made_path(*args: Any, **kwargs: Any) -> object:
    return _path(_source(args, kwargs, 1))


def _made_noted(result: Any, made: Any, *args: Any, **kwargs: Any) -> Details:
    _note(made, _source(args, kwargs))
    return {}


def _own_path(made: Any = None, *args: Any, **kwargs: Any) -> object:
    return _path(_noted(made))


def _own_got(result: Any, made: Any, *args: Any, **kwargs: Any) -> int | None:
    place = _noted(made)
    return _size(result) if place is not None and place.moves else None


def _own_given(result: Any, made: Any, *args: Any, **kwargs: Any) -> int | None:
    place = _noted(made)
    return _size(_argument(args, kwargs, 0, _DATA)) if place is not None and place.moves else None


def _given(*args: Any, **kwargs: Any) -> Details:
    return _shape(_argument(args, kwargs, 1, _DATA))


def _number(*args: Any, **kwargs: Any) -> Details:
    return {"batch": _argument(args, kwargs, 1, ("i",))}


# ---- Parquet -------------------------------------------------------------------------------------


def _stored(place: Place | None, metadata: Any, groups: list[int], columns: list[int]) -> Details:
    """Bytes in the file of the row groups' column chunks, as the metadata in memory has them.

    pyarrow ends the process where it is asked for a chunk that is encrypted and for which it has no key.  So this is
    for what has been read, without a key, and for what has been written without one.
    """
    if place is None or not place.plain or len(groups) * len(columns) > _CHUNKS_MOST:
        return {}
    rows = [metadata.row_group(group) for group in groups]
    return {"stored": sum(row.column(column).total_compressed_size for row in rows for column in columns)}


def _opened(result: Any, file: Any, *args: Any, **kwargs: Any) -> Details:
    plain = kwargs.get("decryption_properties") is None and kwargs.get("metadata") is None
    _note(file, _source(args, kwargs), plain)
    metadata = file.metadata
    return {"rows": metadata.num_rows, "row_groups": metadata.num_row_groups, "columns": metadata.num_columns}


def _part(file: Any, groups: Iterable[int] | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Details:
    """What has been read.  args: from `columns` on, then use_threads and use_pandas_metadata in every function."""
    columns, metadata = _argument(args, kwargs, 0, ("columns",)), file.metadata
    chosen = list(range(metadata.num_columns))
    if columns is not None:
        columns = list(columns)
        with_index = bool(_argument(args, kwargs, 2, ("use_pandas_metadata",)))
        chosen = list(dict.fromkeys(file._get_column_indices(columns, use_pandas_metadata=with_index)))
    groups = list(range(metadata.num_row_groups) if groups is None else groups)
    found = {"row_groups": len(groups), "columns": len(chosen), **_names(columns)}
    return {**found, **_stored(_noted(file), metadata, groups, chosen)}


def _read(result: Any, file: Any, *args: Any, **kwargs: Any) -> Details:
    return {**_part(file, None, args, kwargs), **_rows(result)}


def _read_groups(result: Any, file: Any, *args: Any, **kwargs: Any) -> Details:
    groups = _argument(args, kwargs, 0, ("row_groups",))
    if not isinstance(groups, (list, tuple, range)):
        return _rows(result)  # an iterator: it is gone
    return {**_part(file, groups, args[1:], kwargs), "groups": list(groups), **_rows(result)}


def _read_group(result: Any, file: Any, *args: Any, **kwargs: Any) -> Details:
    groups = [_argument(args, kwargs, 0, ("i",))]
    return {**_part(file, groups, args[1:], kwargs), "groups": groups, **_rows(result)}


def _batches(*args: Any, **kwargs: Any) -> Details:
    asked = (("batch_size", _argument(args, kwargs, 1, ("batch_size",))),
             ("groups", _argument(args, kwargs, 2, ("row_groups",))))  # fmt: skip
    names = _names(_argument(args, kwargs, 3, ("columns",)))
    return {**{name: value for name, value in asked if isinstance(value, (int, list, tuple))}, **names}


def _steps_count(result: Any, made: Any, *args: Any, **kwargs: Any) -> int | None:
    place = _noted(made)
    return 0 if place is not None and place.moves else None


def _rows(result: Any, *args: Any, **kwargs: Any) -> Details:
    rows = getattr(result, "num_rows", None)
    return {} if rows is None else {"rows": rows}


def _writer_made(result: Any, writer: Any, *args: Any, **kwargs: Any) -> Details:
    _note(writer, _source(args, kwargs), plain=kwargs.get("encryption_properties") is None and len(args) < 15)
    return {}


def _written(result: Any, writer: Any) -> Details:
    try:
        metadata = writer.writer.metadata
    except RuntimeError:  # it was not closed for good
        return {}
    groups, columns = list(range(metadata.num_row_groups)), list(range(metadata.num_columns))
    found = {"rows": metadata.num_rows, "row_groups": len(groups), "columns": len(columns)}
    return {**found, **_stored(_noted(writer), metadata, groups, columns)}


def _writer_details(*args: Any, **kwargs: Any) -> Details:
    compression, schema = kwargs.get("compression", "snappy"), _argument(args, kwargs, 2, ("schema",))
    said: Details = {"compression": compression} if isinstance(compression, str) else {}
    return {"columns": len(schema), **said} if hasattr(schema, "__len__") else said


def _metadata_got(result: Any, *args: Any, **kwargs: Any) -> Details:
    groups = getattr(result, "num_row_groups", None)
    return {} if groups is None else {"rows": result.num_rows, "row_groups": groups, "columns": result.num_columns}


# ---- datasets ------------------------------------------------------------------------------------


def _dataset(made: Any) -> Place | None:
    """Of a dataset, a fragment, a scanner.  A dataset over bytes in memory must not be asked for its filesystem:
    pyarrow goes through a null pointer."""
    place = _noted(made)
    if place is not None:
        return place
    if type(made).__name__ == "FileSystemDataset":
        files = [path for path in made.files if not path.startswith("<")]  # <Buffer>, <File>
        place = _common([Place(path) for path in files]) if files else None
        if place is not None:
            place = place if os.path.isabs(os.fsdecode(place.path)) else Place(None)  # type: ignore[arg-type]
            _note(made, place)
    elif type(made).__name__ == "UnionDataset":
        within = [found for found in map(_dataset, made.children) if found is not None]
        place = Place(None, all(found.moves for found in within)) if within else None
    elif getattr(made, "filesystem", None) is not None:  # a fragment
        place = _within(made.filesystem, made.path)
    return place


def _datasets_noted(result: Any, made: Any, *args: Any, **kwargs: Any) -> Details:
    place = _source(args, kwargs)
    _note(made, place)
    _note(getattr(made, "_dataset", None), place)
    return {}


def _dataset_path(made: Any = None, *args: Any, **kwargs: Any) -> object:
    return _path(_dataset(made))


def _dataset_got(result: Any, made: Any, *args: Any, **kwargs: Any) -> int | None:
    place = _dataset(made)
    return _size(result) if place is not None and place.moves else None


def _dataset_steps_count(result: Any, made: Any, *args: Any, **kwargs: Any) -> int | None:
    place = _dataset(made)
    return 0 if place is not None and place.moves else None


def _scan(*args: Any, **kwargs: Any) -> Details:
    filtered = {} if kwargs.get("filter") is None else {"filtered": True}
    columns = kwargs.get("columns")
    asked = {name: kwargs[name] for name in ("batch_size",) if name in kwargs}
    return {**_names(columns), **filtered, **asked}


def _scanner_noted(result: Any, made: Any, *args: Any, **kwargs: Any) -> Details:
    _note(result, _dataset(made))
    return {}


def _counted(result: Any, *args: Any, **kwargs: Any) -> Details:
    return {"rows": result}


def _found(result: Any, *args: Any, **kwargs: Any) -> Details:
    _note(result, _source(args, kwargs))
    files = getattr(result, "files", None)
    return {} if files is None else {"files": len(files)}


def _data_details(*args: Any, **kwargs: Any) -> Details:
    format = kwargs.get("format")
    kind = format if isinstance(format, str) else getattr(format, "default_extname", None)
    return {**_shape(_argument(args, kwargs, 0, _DATA)), **({} if kind is None else {"format": kind})}


# ---- files and filesystems -----------------------------------------------------------------------


def _file_path(file: Any = None, *args: Any, **kwargs: Any) -> object:
    """Over a Python file object there is no row, of each small read: the object has its own."""
    noted = _noted(file)
    if noted is not None:
        return noted.path if noted.moves else NotImplemented
    if type(file).__name__ in ("OSFile", "MemoryMappedFile") and not file.closed:
        return file.fileno()
    return NotImplemented


def _buffer_size(result: Any, *args: Any, **kwargs: Any) -> int:
    return int(result.size)


def _in(filesystem: Any = None, *args: Any, **kwargs: Any) -> object:
    path = _argument(args, kwargs, 0, ("path", "paths_or_selector", "src"))
    if hasattr(path, "base_dir"):  # a selector
        path = path.base_dir
    place = _place(path, filesystem)
    return None if place is None else place.path


def _in_noted(result: Any, filesystem: Any, *args: Any, **kwargs: Any) -> Details:
    _note(result, _place(_argument(args, kwargs, 0, ("path",)), filesystem))
    return {}


def _to(filesystem: Any = None, *args: Any, **kwargs: Any) -> Details:
    place = _place(_argument(args, kwargs, 1, ("dest",)), filesystem)
    return {} if place is None or not isinstance(place.path, str) else {"to": place.path}


# ---- the table -----------------------------------------------------------------------------------


def _parquet() -> tuple[Target, ...]:
    def target(where: str, **rest: Any) -> Target:
        name = rest.pop("name", None) or (None if "." in where else f"pyarrow.parquet.{where}")
        return Target(where, module=PARQUET, name=name, **rest)

    own = {"path": _own_path, "moved": _own_got, "kind": "read"}
    return (
        target("read_table", path=_source_path, details=_table_columns, after=_got, moved=_source_moved, kind="read"),
        target("read_metadata", path=_source_path, after=_metadata_got),
        target("read_schema", path=_source_path),
        target("write_table", path=_sink_path, details=_sink_details, moved=_sink_moved, kind="write"),
        target("write_metadata", path=_sink_path),
        target("write_to_dataset", path=_sink_path, details=_sink_details, moved=_sink_moved, kind="write"),
        target("ParquetFile.__init__", name="pyarrow.parquet.ParquetFile", path=_made_path, after=_opened),
        target("ParquetFile.read", after=_read, **own),
        target("ParquetFile.read_row_group", after=_read_group, **own),
        target("ParquetFile.read_row_groups", after=_read_groups, **own),
        target(
            "ParquetFile.iter_batches", path=_own_path, details=_batches, moved=_steps_count,
            steps="ParquetFile.iter_batches.__next__",
        ),
        target("ParquetFile.scan_contents", path=_own_path),
        target("ParquetFile.close", path=_own_path),
        target(
            "ParquetWriter.__init__", name="pyarrow.parquet.ParquetWriter", path=_made_path, details=_writer_details,
            after=_writer_made,
        ),
        target("ParquetWriter.write_table", path=_own_path, details=_given, moved=_own_given, kind="write"),
        target("ParquetWriter.write_batch", path=_own_path, details=_given, moved=_own_given, kind="write"),
        target("ParquetWriter.close", path=_own_path, after=_written),
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
        return own(where, after=_got, moved=_own_got, kind="read", **rest)

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
        targets.append(
            Target(f"{owner}.count_rows", module=DATASET, path=_dataset_path, details=_scan, after=_counted)
        )
        # the others' go on to the scanner's
        steps = {"moved": _dataset_steps_count, "steps": "Scanner.to_batches.__next__"}
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
        target("read_table", FEATHER, details=_columns, **reads),
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
        lib("memory_map", after=_source_noted),
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
