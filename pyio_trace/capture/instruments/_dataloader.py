"""PyTorch's DataLoader: which epoch, batch and worker a wait or a fetch is of.

The trainer's iterators know: they hand out the batches' numbers, and are asked.
A worker is told a batch's number with what to fetch, through its own queue, and
fetches that next: what it gets from the queue is looked at.  Which loader and
epoch it works for, the trainer notes in the process object that becomes the
worker, however it is started; what ends an epoch comes through the queue too.

A loader is named by its trainer's process and a number, so that a reader can
join waits and fetches on (loader, epoch, batch) across all processes of a host.
Nothing of the program's is kept alive: the tables below hold weak references.
"""

from __future__ import annotations

import os
import sys
from _weakref import ref

from pyio_trace.capture.remembered import address

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Told = dict[str, object]

_KEY = "pyio_trace.dataloader"  # in the configuration of a worker's process object
_MAP = 0  # torch.utils.data.dataloader._DatasetKind.Map
_ARGUMENT_QUEUE, _ARGUMENT_DONE = 2, 4  # of torch.utils.data._utils.worker._worker_loop, ever since 1.2

_numbers = iter(range(1 << 62))  # taking the next one is atomic
_loaders: dict[int, _Loader] = {}  # by id of the DataLoader
_iterators: dict[int, _Iterator] = {}  # by id of its iterator
_worker: _Worker | None = None  # what this process is, if it is one


class _Loader:
    """A DataLoader of this process.  epochs: begun so far."""

    __slots__ = ("epochs", "name", "pid", "ref")

    def __init__(self, loader: object | None) -> None:
        self.ref: Callable[[], object] = ref(loader) if loader is not None else lambda: None
        self.pid = os.getpid()
        self.name = f"{self.pid}.{next(_numbers)}"
        self.epochs = 0


class _Iterator:
    """An iterator of a DataLoader.  epoch: None where its beginning was not seen; workers: by batch, of those that
    have come and were not handed out yet; last: the batch that came last."""

    __slots__ = ("epoch", "last", "loader", "ref", "workers")

    def __init__(self, iterator: object, loader: _Loader, epoch: int | None) -> None:
        self.ref: Callable[[], Any] = ref(iterator)
        self.loader = loader
        self.epoch = epoch
        self.workers: dict[int, int] = {}
        self.last: int | None = None

    def told(self) -> Told:
        return {"loader": self.loader.name} if self.epoch is None else {"loader": self.loader.name, "epoch": self.epoch}


class _Worker:
    """This process, a worker.  given: the batch that it is to fetch next, and the id of what that is made of."""

    __slots__ = ("fetches", "given", "info", "queue", "told")

    def __init__(self, info: Any) -> None:
        process = sys.modules["multiprocessing.process"].current_process()
        arguments = getattr(process, "_args", ())
        self.info = info
        self.queue = arguments[_ARGUMENT_QUEUE] if len(arguments) > _ARGUMENT_QUEUE else None
        self.given: tuple[int, int] | None = None
        self.fetches = 0
        self.told: Told = {"worker": info.id}
        noted = process._config.get(_KEY)
        if noted is not None:
            self.told = {"loader": noted[0], "epoch": noted[1], **self.told}


def forget() -> None:
    """Nothing is traced any more."""
    global _worker
    _loaders.clear()
    _iterators.clear()
    _worker = None


# ---- the trainer ---------------------------------------------------------------------------


def _find(table: dict[int, Any], thing: object) -> Any:
    """The entry of just this object: another may have had its address."""
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
    if loader is None or loader.pid != os.getpid():  # a forked child's is another one
        loader = _put(_loaders, dataloader, _Loader(dataloader))
    loader.epochs += 1
    return loader, loader.epochs - 1


def _iterator(iterator: object) -> _Iterator:
    """Of one that was there before tracing began, neither the loader nor the epoch is known."""
    found: _Iterator | None = _find(_iterators, iterator)
    if found is None:
        found = _Iterator(iterator, _Loader(None), None)
        _put(_iterators, iterator, found)
    return found


def begins(iterator: object, loader: object) -> None:
    """_BaseDataLoaderIter.__init__"""
    _put(_iterators, iterator, _Iterator(iterator, *_next_epoch(loader)))


def begins_again(iterator: object, loader: object, first_iter: bool = False) -> None:
    """_MultiProcessingDataLoaderIter._reset: the same workers go on to another epoch."""
    if not first_iter:
        known = _iterator(iterator)
        known.loader, known.epoch = _next_epoch(loader)
        known.workers.clear()


def starts(process: Any) -> None:
    """BaseProcess.start: a worker's process object goes with it, forked or pickled."""
    if getattr(process._target, "__name__", None) != "_worker_loop" or len(process._args) <= _ARGUMENT_DONE:
        return
    for known in reversed(list(_iterators.values())):
        if getattr(known.ref(), "_workers_done_event", None) is process._args[_ARGUMENT_DONE]:
            process._config[_KEY] = known.loader.name, known.epoch
            return


def iterating(result: Any, loader: Any) -> Told:
    """DataLoader.__iter__, once it has returned."""
    workers = [process.pid for process in getattr(result, "_workers", ())]
    return {**_iterator(result).told(), "num_workers": loader.num_workers, "workers": workers}


def _in_turn(iterator: Any) -> bool:
    """Whether it is sure beforehand which batch comes next: no worker ends early, none overtakes."""
    return iterator._dataset_kind == _MAP and getattr(iterator, "_in_order", True)


def waits(iterator: Any) -> Told:
    """__next__, before the call."""
    told = _iterator(iterator).told()
    tasks = getattr(iterator, "_task_info", None)
    if tasks is not None and _in_turn(iterator):
        task = tasks.get(iterator._rcvd_idx)
        if task:
            told["batch"], told["worker"] = iterator._rcvd_idx, task[0]
    return told


def takes(result: Any, iterator: Any, *args: object, **kwargs: object) -> None:
    """_MultiProcessingDataLoaderIter._try_get_data, once it has returned (whether there was one, (batch, data))."""
    if result is None or not result[0]:
        return
    batch = result[1][0]
    task = iterator._task_info.get(batch) if type(batch) is int else None
    if task:
        known = _iterator(iterator)
        known.workers[batch] = task[0]
        known.last = batch


def waited(result: object, iterator: Any) -> Told | None:
    """__next__, once it has returned: what could not be said before."""
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
    """multiprocessing.Queue.get, once it has returned: a worker's own queue has (batch, what it is made of)."""
    worker = _this_worker()
    if worker is None or queue is not worker.queue:
        return
    worker.given = None
    if type(result) is tuple and len(result) == 2:
        worker.given = result[0], address(result[1])
    elif type(result).__name__ == "_ResumeIteration" and isinstance(worker.told.get("epoch"), int):
        worker.told["epoch"] = worker.told["epoch"] + 1  # type: ignore[operator]


def fetches(fetcher: object, made_of: object) -> Told | None:
    """fetch, in a worker or, where there are none, in the trainer."""
    worker = _this_worker()
    given = worker.given if worker is not None else None
    if given is None or given[1] != address(made_of):
        for known in reversed(list(_iterators.values())):  # one without workers, perhaps within a worker
            iterator = known.ref()
            if iterator is not None and getattr(iterator, "_dataset_fetcher", None) is fetcher:
                return {**known.told(), "batch": iterator._num_yielded}
        given = None
    if worker is None:
        return None
    worker.given = None
    told = {**worker.told, "ordinal": worker.fetches}
    worker.fetches += 1
    if given is not None:
        told["batch"] = given[0]
    return told
