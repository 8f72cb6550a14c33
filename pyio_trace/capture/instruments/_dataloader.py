"""PyTorch's DataLoader: the epoch, batch and worker of each wait and fetch.

In the trainer, iterators number the batches and hand them out.  A worker receives
the number of a batch, and what to fetch for it, through a queue of its own and
fetches that next, so we inspect what the queue returns.  The trainer stores the
loader and the epoch in the process object that becomes the worker, however that
is started; the end of an epoch comes through the queue too.

torchdata's StatefulDataLoader is one too, with iterators and workers of its own
that have the same names and fields.

A loader is named by its trainer's pid and a number, so waits and fetches can be
joined on (loader, epoch, batch) across all processes of a host.  The tables
below hold weak references and keep no object of the program alive.
"""

from __future__ import annotations

import os
import sys
from _weakref import ref

from pyio_trace import native
from pyio_trace.capture.instrumentation.weak_id_map import address
from pyio_trace.capture.instruments.multiprocessing import target_name
from pyio_trace.values import LOADER_WORKER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Details = dict[str, object]

_KEY = "pyio_trace.dataloader"  # in the configuration of a worker's process object
_COLLATION = "torch.utils.data._utils.collate"
_MAP = 0  # torch.utils.data.dataloader._DatasetKind.Map
_PREFETCHED = 2  # prefetch_factor, by default
_ARGUMENT_QUEUE, _ARGUMENT_DONE = 2, 4  # of torch.utils.data._utils.worker._worker_loop, since 1.2

_numbers = iter(range(1 << 62))  # taking the next one is atomic
_loaders: dict[int, _Loader] = {}  # by id of the DataLoader
_iterators: dict[int, _Iterator] = {}  # by id of its iterator
_worker: _Worker | None = None  # this process, if it is a worker


class _Loader:
    """A DataLoader of this process.  epochs: the number begun so far."""

    __slots__ = ("epochs", "name", "pid", "ref")

    def __init__(self, loader: object | None) -> None:
        self.ref: Callable[[], object] = ref(loader) if loader is not None else lambda: None
        self.pid = os.getpid()
        self.name = f"{self.pid}.{next(_numbers)}"
        self.epochs = 0


class _Iterator:
    """An iterator of a DataLoader.

    epoch: None if its beginning was not seen.  workers: by batch, for batches
    that have arrived and were not yet returned.  last: the latest batch to arrive.
    """

    __slots__ = ("epoch", "last", "loader", "ref", "workers")

    def __init__(self, iterator: object, loader: _Loader, epoch: int | None) -> None:
        self.ref: Callable[[], Any] = ref(iterator)
        self.loader = loader
        self.epoch = epoch
        self.workers: dict[int, int] = {}
        self.last: int | None = None

    def details(self) -> Details:
        return {"loader": self.loader.name} if self.epoch is None else {"loader": self.loader.name, "epoch": self.epoch}


class _Worker:
    """This process, which is a worker.  next: the batch that it fetches next, and the ids of two objects, one of which
    is the batch's indices: what came with the batch's number (PyTorch), and the first part of that (torchdata).  asked:
    whether anything called get_worker_info()."""

    __slots__ = ("asked", "details", "fetches", "info", "next", "queue")

    def __init__(self, info: Any) -> None:
        process = sys.modules["multiprocessing.process"].current_process()
        arguments = getattr(process, "_args", ())
        self.info = info
        self.queue = arguments[_ARGUMENT_QUEUE] if len(arguments) > _ARGUMENT_QUEUE else None
        self.next: tuple[int, int, int] | None = None
        self.fetches = 0
        self.asked = False
        self.details: Details = {"worker": info.id}
        stored = process._config.get(_KEY)
        if stored is not None:
            self.details = {"loader": stored[0], "epoch": stored[1], **self.details}
        if native.core is not None:
            loader = "DataLoader" if stored is None else f"DataLoader {stored[0].partition('.')[2]}"
            native.core.name_process(LOADER_WORKER, f"{loader}, worker {info.id}")


def forget() -> None:
    """Tracing has stopped."""
    global _worker
    _loaders.clear()
    _iterators.clear()
    _worker = None


# ---- the trainer ---------------------------------------------------------------------------


def _find(table: dict[int, Any], thing: object) -> Any:
    """The entry of this very object: another object may have had its address before."""
    entry = table.get(address(thing))
    return entry if entry is not None and entry.ref() is thing else None


def _put(table: dict[int, Any], thing: object, entry: Any) -> Any:
    for key, other in list(table.items()):
        if other.ref() is None:
            table.pop(key, None)
    table[address(thing)] = entry
    return entry


def _next_epoch(dataloader: object) -> tuple[_Loader, int]:
    loader: _Loader | None = _find(_loaders, dataloader)
    if loader is None or loader.pid != os.getpid():  # in a forked child it counts as another loader
        loader = _put(_loaders, dataloader, _Loader(dataloader))
    loader.epochs += 1
    return loader, loader.epochs - 1


def _iterator(iterator: object) -> _Iterator:
    """Its entry.  If it is older than tracing, its loader and epoch are not known."""
    found: _Iterator | None = _find(_iterators, iterator)
    if found is None:
        found = _Iterator(iterator, _Loader(None), None)
        _put(_iterators, iterator, found)
    return found


def begins(iterator: object, loader: object) -> None:
    """_BaseDataLoaderIter.__init__"""
    _put(_iterators, iterator, _Iterator(iterator, *_next_epoch(loader)))


def begins_again(iterator: object, loader: object, first_iter: bool = False, *args: object, **kwargs: object) -> None:
    """_MultiProcessingDataLoaderIter._reset, and torchdata's: the same workers continue with another epoch."""
    if not first_iter:
        known = _iterator(iterator)
        known.loader, known.epoch = _next_epoch(loader)
        known.workers.clear()


def starts(process: Any) -> None:
    """BaseProcess.start: the worker gets a copy of its process object, by fork or pickle."""
    if target_name(process) != "_worker_loop" or len(process._args) <= _ARGUMENT_DONE:
        return
    for known in reversed(list(_iterators.values())):
        if getattr(known.ref(), "_workers_done_event", None) is process._args[_ARGUMENT_DONE]:
            process._config[_KEY] = known.loader.name, known.epoch
            return


def iterating(result: Any, loader: Any) -> Details:
    """After DataLoader.__iter__."""
    workers = [process.pid for process in getattr(result, "_workers", ())]
    details = {**_iterator(result).details(), "num_workers": loader.num_workers, "workers": workers}
    ahead = getattr(result, "_prefetch_factor", None)
    return details if ahead in (None, _PREFETCHED) else {**details, "prefetch_factor": ahead}


def _in_turn(iterator: Any) -> bool:
    """Whether the next batch is known beforehand: no worker ends early, and batches stay in order."""
    return iterator._dataset_kind == _MAP and getattr(iterator, "_in_order", True)


def waits(iterator: Any) -> Details:
    """Before __next__."""
    details = _iterator(iterator).details()
    tasks = getattr(iterator, "_task_info", None)
    if tasks is not None and _in_turn(iterator):
        task = tasks.get(iterator._rcvd_idx)
        if task:
            details["batch"], details["worker"] = iterator._rcvd_idx, task[0]
    return details


def takes(result: Any, iterator: Any, *args: object, **kwargs: object) -> None:
    """After _MultiProcessingDataLoaderIter._try_get_data, which returns (success, (batch, data))."""
    if result is None or not result[0]:
        return
    batch = result[1][0]
    task = iterator._task_info.get(batch) if type(batch) is int else None
    if task:
        known = _iterator(iterator)
        known.workers[batch] = task[0]
        known.last = batch


def waited(result: object, iterator: Any) -> Details | None:
    """After __next__: what was not known before."""
    if getattr(iterator, "_task_info", None) is None:
        return {"batch": iterator._num_yielded - 1}
    known = _iterator(iterator)
    batch = iterator._rcvd_idx - 1 if getattr(iterator, "_in_order", True) else known.last
    worker = known.workers.pop(batch, None) if batch is not None else None
    return None if _in_turn(iterator) else {"batch": batch, "worker": worker}


# ---- the worker ----------------------------------------------------------------------------


def _this_worker() -> _Worker | None:
    global _worker
    info = getattr(sys.modules.get("torch.utils.data._utils.worker"), "_worker_info", None)
    if info is None:
        return None
    if _worker is None or _worker.info is not info:
        _worker = _Worker(info)
    return _worker


def gets(result: object, queue: object, *args: object, **kwargs: object) -> None:
    """After multiprocessing.Queue.get: a worker's own queue delivers (batch, indices); torchdata's delivers
    (batch, (indices, whether the worker's state is wanted))."""
    worker = _this_worker()
    if worker is None or queue is not worker.queue:
        return
    worker.next = None
    if type(result) is tuple and len(result) == 2:
        first = result[1][0] if type(result[1]) is tuple and result[1] else None
        worker.next = result[0], address(result[1]), address(first)
    elif type(result).__name__ == "_ResumeIteration" and isinstance(worker.details.get("epoch"), int):
        worker.details["epoch"] = worker.details["epoch"] + 1  # type: ignore[operator]


def fetches(fetcher: object, indices: object) -> Details | None:
    """Before fetch: in a worker, or without workers in the trainer."""
    details = _of_fetch(fetcher, indices)
    if details is not None and getattr(fetcher, "ended", None) is None:
        details |= _samples(fetcher, indices)
    return details


def fetched(result: object, fetcher: object, indices: object) -> Details | None:
    """After the fetch of an iterable dataset.  One that ended in this batch has filled an unknown part of it."""
    if result is None or getattr(fetcher, "ended", True):
        return None
    details = _samples(fetcher, indices)
    if _worker is not None:
        details["asked"] = _worker.asked
    return details


def asked(result: object, *args: object) -> None:
    """After get_worker_info(): the dataset may take the part of this worker.  PyTorch's own collation asks, too."""
    worker = _this_worker()
    if worker is None or worker.asked:
        return
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_name == "get_worker_info":
        frame = frame.f_back
    worker.asked = frame is None or frame.f_globals.get("__name__") != _COLLATION


def _samples(fetcher: object, indices: object) -> Details:
    """How many samples a batch has, where PyTorch itself makes it of single ones."""
    known = getattr(fetcher, "auto_collation", False) is True and type(indices) in (list, tuple)
    return {"samples": len(indices)} if known else {}  # type: ignore[arg-type]


def _of_fetch(fetcher: object, indices: object) -> Details | None:
    worker = _this_worker()
    given = worker.next if worker is not None else None
    if given is None or address(indices) not in given[1:]:
        for known in reversed(list(_iterators.values())):  # a loader without workers, perhaps inside a worker
            iterator = known.ref()
            if iterator is not None and getattr(iterator, "_dataset_fetcher", None) is fetcher:
                return {**known.details(), "batch": iterator._num_yielded}
        given = None
    if worker is None:
        return None
    worker.next = None
    details = {**worker.details, "ordinal": worker.fetches}
    worker.fetches += 1
    if given is not None:
        details["batch"] = given[0]
    return details
