"""PyTorch: the DataLoader's waits and fetches (_dataloader.py), torch.save and torch.load, distributed checkpoints.

The bytes of save and load are those of the tensors' storages.  The pickle that
describes them and the bytes of the container are in other records, or only in
POSIX operations.
"""

from __future__ import annotations

import sys
from _thread import get_ident

from pyio_trace.capture.instrumentation.instrument import MARKS, Instrument, Target
from pyio_trace.capture.instruments import _dataloader as loading
from pyio_trace.capture.instruments._files import attribute, may_have

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# ---- torch.save, torch.load ----------------------------------------------------------------

#: Objects that are looked at to find tensors; kinds of those that have none.
_MOST_OBJECTS = 20_000
_PLAIN = (int, float, complex, bool, str, bytes, type(None))
#: By thread: bytes and number of the storages that the current call has moved.  An inner call, by an object that
#: pickles itself with torch.save, ends before the outer one moves any.
_storages: dict[int, tuple[int, int]] = {}


def _moves(number: int) -> None:
    bytes_, count = _storages.get(get_ident(), (0, 0))
    _storages[get_ident()] = bytes_ + number, count + 1


def _bytes_of_views(saved: object) -> int | None:
    """The bytes of all tensors in an object, if their storages have more; None: they have not, or it has objects of
    other kinds, which may have tensors too.  No code of the program runs."""
    torch: Any = sys.modules["torch"]
    ordered = sys.modules["collections"].OrderedDict  # torch has imported it
    tensors, containers = (torch.Tensor, torch.nn.Parameter), (dict, ordered, list, tuple)
    storages: dict[int, tuple[int, int]] = {}
    left: list[Any] = [saved]
    seen: set[int] = set()
    with torch._C.DisableTorchFunction():  # modes and subclasses of the program
        while left and len(seen) < _MOST_OBJECTS:
            one = left.pop()
            kind = type(one)
            if kind in _PLAIN or id(one) in seen:
                continue
            seen.add(id(one))
            if kind in containers:
                left.extend(dict.values(one) if kind in containers[:2] else one)
            elif kind not in tensors or one.layout is not torch.strided:
                return None
            else:
                storage = one.untyped_storage()
                whole, used = storage.nbytes(), one.numel() * one.element_size()
                storages[storage._cdata] = whole, storages.get(storage._cdata, (0, 0))[1] + used
    used = sum(min(both) for both in storages.values())
    return used if not left and used < sum(whole for whole, _ in storages.values()) else None


def _saves(
    obj: object, f: object, pickle_module: object = None, pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True, *args: object, **kwargs: object,
) -> dict[str, object]:  # fmt: skip
    _storages.pop(get_ident(), None)
    found: dict[str, object] = {"format": "zip" if _use_new_zipfile_serialization else "legacy"}
    if (tensors := _bytes_of_views(obj)) is not None:
        found["tensors"] = tensors
    return found


def _loads(f: object, *args: object, **kwargs: object) -> dict[str, object]:
    _storages.pop(get_ident(), None)
    return {"mmap": True} if kwargs.get("mmap") else {}


def _bytes(result: object, *args: object, **kwargs: object) -> int | None:
    """None if no storage was seen: it is mapped, or read by other means (TorchScript, safetensors)."""
    return None if kwargs.get("mmap") else _storages.get(get_ident(), (None, 0))[0]


def _count(result: object, *args: object, **kwargs: object) -> dict[str, object] | None:
    count = _storages.pop(get_ident(), (0, 0))[1]
    return None if kwargs.get("mmap") else {"storages": count}


def _record(archive: object, name: object, *args: object) -> dict[str, object]:
    return {"record": name}


def _bytes_recorded(result: object, archive: object, name: str, data: object, size: int, *args: object) -> int:
    if name.startswith("data/"):
        _moves(size)
    return size


def _bytes_of_storage(result: object, archive: object, name: object, size: int, *args: object) -> int:
    _moves(size)
    return size


def _legacy(result: object, storage: Any, *args: object) -> None:
    _moves(storage.nbytes())


# ---- torch.distributed.checkpoint ----------------------------------------------------------


def _checkpoint(*args: Any, **kwargs: Any) -> object:
    """checkpoint_id, or the path that the reader or writer was made with."""
    if kwargs.get("checkpoint_id") is not None:
        return kwargs["checkpoint_id"]
    for agent in (kwargs.get("storage_writer"), kwargs.get("storage_reader"), *args[1:2]):
        if agent is not None:
            return _folder(agent)
    return None


def _folder(agent: Any, *args: object, **kwargs: object) -> object:
    """The attribute of the file system's readers and writers; a class of the program may have code by that name."""
    return attribute(agent, "path")


def _planned(agent: Any, plan: Any, planner: object) -> dict[str, object]:
    return {"items": len(plan.items)}


def _written(agent: Any, plan: Any, planner: object) -> dict[str, object]:
    return {"items": len(plan.items), "threads": agent.thread_count}


def _bytes_written(result: Any, *args: object) -> int | None:
    return sum(one.size_in_bytes for one in result.value()) if result.done() else None


def _bytes_read(result: object, agent: Any, plan: Any, planner: object) -> int:
    return sum(agent.storage_data[item.storage_index].length for item in plan.items)


def _stream(*args: Any, **kwargs: object) -> object:
    """The file that an item is written to: the first or second argument, depending on the version."""
    return next((one for one in args[:2] if may_have(one, "tell")), None)


def _item(result: Any, *args: object, **kwargs: object) -> dict[str, object]:
    return {"name": result.index.fqn, "offset": result.storage_data.offset}


def _bytes_of_item(result: Any, *args: object, **kwargs: object) -> int:
    return int(result.size_in_bytes)


def _checkpointed(module: str, name: str, kind: str = "call") -> Target:
    return Target(
        name, module=f"torch.distributed.checkpoint.{module}", name=f"torch.distributed.checkpoint.{name}",
        kind=kind, path=_checkpoint, optional=True,
    )  # fmt: skip


_LOADER = "torch.utils.data.dataloader"
_STATEFUL = "torchdata.stateful_dataloader.stateful_dataloader"
_FETCH = "torch.utils.data._utils.fetch"
_FILES = "torch.distributed.checkpoint.filesystem"

_LOADING = (
    Target("DataLoader.__iter__", module=_LOADER, kind="starting", after=loading.iterating),
    Target("_BaseDataLoaderIter.__next__", module=_LOADER, name="DataLoader.__next__", kind="wait",
           details=loading.waits, after=loading.waited),
    Target("_MapDatasetFetcher.fetch", module=_FETCH, name="DataLoader.fetch", kind="container",
           details=loading.fetches),
    Target("_IterableDatasetFetcher.fetch", module=_FETCH, name="DataLoader.fetch", kind="container",
           details=loading.fetches, after=loading.fetched),
    Target("get_worker_info", module="torch.utils.data._utils.worker", hands_over=MARKS, after=loading.asked),
    Target("_BaseDataLoaderIter.__init__", module=_LOADER, hands_over=MARKS, details=loading.begins),
    Target("_MultiProcessingDataLoaderIter._reset", module=_LOADER, hands_over=MARKS, details=loading.begins_again),
    Target("_MultiProcessingDataLoaderIter._try_get_data", module=_LOADER, hands_over=MARKS, after=loading.takes),
    # torchdata's loader repeats these, instead of calling them.
    Target("StatefulDataLoader.__iter__", module=_STATEFUL, name="DataLoader.__iter__", kind="starting",
           after=loading.iterating, optional=True),
    Target("_StatefulMultiProcessingDataLoaderIter._reset", module=_STATEFUL, hands_over=MARKS,
           details=loading.begins_again, optional=True),
    Target("_StatefulMultiProcessingDataLoaderIter._try_get_data", module=_STATEFUL, hands_over=MARKS,
           after=loading.takes, optional=True),
    Target("BaseProcess.start", module="multiprocessing.process", hands_over=MARKS, details=loading.starts),
    Target("Queue.get", module="multiprocessing.queues", kind="wait", after=loading.gets),
)  # fmt: skip

_FILES_OF_ONE = (
    Target("save", module="torch.serialization", kind="write", path="f", details=_saves, after=_count, moved=_bytes),
    Target("load", module="torch.serialization", kind="read", path="f", details=_loads, after=_count, moved=_bytes),
    Target("PyTorchFileWriter.write_record", module="torch._C", kind="write", details=_record, moved=_bytes_recorded),
    Target("PyTorchFileReader.get_record", module="torch._C", kind="read", details=_record, moved="len"),
    Target("PyTorchFileReader.get_storage_from_record", module="torch._C", kind="read", details=_record,
           moved=_bytes_of_storage),
    Target("StorageBase._write_file", module="torch._C", hands_over=MARKS, after=_legacy),
    Target("StorageBase._set_from_file", module="torch._C", hands_over=MARKS, after=_legacy),
)  # fmt: skip

#: All optional: some versions lack them or have other names.
_CHECKPOINTS = (
    _checkpointed("state_dict_saver", "save"),
    _checkpointed("state_dict_saver", "async_save", "container"),  # returns before its threads have written
    _checkpointed("state_dict_loader", "load"),
    Target("_FileSystemWriter.write_data", module=_FILES, name="FileSystemWriter.write_data", kind="write",
           path=_folder, details=_written, moved=_bytes_written, optional=True),
    Target("FileSystemWriter.write_data", module=_FILES, kind="write", path=_folder, details=_written,
           moved=_bytes_written, optional=True),
    Target("_FileSystemWriter.finish", module=_FILES, name="FileSystemWriter.finish", path=_folder, optional=True),
    Target("FileSystemWriter.finish", module=_FILES, path=_folder, optional=True),
    Target("_write_item", module=_FILES, name="FileSystemWriter.write_item", kind="write", path=_stream, after=_item,
           moved=_bytes_of_item, optional=True),
    Target("FileSystemReader.read_data", module=_FILES, kind="read", path=_folder, details=_planned,
           moved=_bytes_read, optional=True),
    Target("FileSystemReader.read_metadata", module=_FILES, kind="read", path=_folder, optional=True),
)  # fmt: skip


def _forget() -> None:
    _storages.clear()
    loading.forget()


instrument = Instrument("torch", minimum="2.0", disarm=_forget, targets=(*_LOADING, *_FILES_OF_ONE, *_CHECKPOINTS))
