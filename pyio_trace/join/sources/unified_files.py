"""Which files of several logs are the same.

On one host, a file is the same where its device and inode are; a path that no log
of the host has looked at is the same where it reads the same.  On a file system
that hosts share, a file is the same where its path is: inferred, since devices
differ by host.  Logs that were not written at the same time have no file in
common, because a file may have become another one in between.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyio_trace.join.base.identities import Identities
from pyio_trace.join.processes.mounts import SHARED, kind_at

Ints = NDArray[np.int64]

_INODE, _SHARED_PATH, _PATH, _ALONE = range(4)
#: ns.  Clocks of hosts may be wrong by hours.
_DAY = 86_400_000_000_000


class FilesOfLog(NamedTuple):
    """The files that operations of one log name: distinct numbers.

    path: code of a path of each, -1: none; shared: whether that is on a file system that hosts share.
    """

    file: Ints
    path: Ints
    shared: NDArray[np.bool_]
    identities: Identities


class Unified(NamedTuple):
    """By log: (files that have another number, ascending; that number).  inferred: files that are one because of their
    path alone."""

    numbers: list[tuple[Ints, Ints]]
    inferred: int


def unified(logs: Sequence[FilesOfLog], hosts: Sequence[int], jobs: Sequence[int], shifts: Sequence[int]) -> Unified:
    """hosts, jobs: of each log, a number; only logs of one job have files in common.  shifts: what makes the numbers of
    each log distinct."""
    lengths = [len(one.file) for one in logs]
    log = np.repeat(np.arange(len(logs)), lengths)
    if not len(log):
        return Unified([], 0)
    file, path, shared, device, inode = _columns(logs)
    job, host = np.asarray(jobs)[log], np.asarray(hosts)[log]
    kind = np.where(shared, _SHARED_PATH, np.where(inode != 0, _INODE, np.where(path >= 0, _PATH, _ALONE)))
    first, second = np.where(kind == _INODE, device, path), np.where(kind == _INODE, inode, 0)
    place = np.where(kind == _SHARED_PATH, 0, host)
    alone = kind == _ALONE
    first[alone], second[alone] = np.flatnonzero(alone), log[alone]
    keys = _numbered(job, place, kind, first, second)
    _by_name(keys, kind, _numbered(job, host, path), inode != 0)
    return _representatives(keys, log, file, kind, np.asarray(shifts)[log], lengths)


def _columns(logs: Sequence[FilesOfLog]) -> tuple[Ints, Ints, NDArray[np.bool_], Ints, Ints]:
    """file, path, shared, device and inode (0: not known) of all files."""
    device, inode = [], []
    for one in logs:
        own = [np.zeros(len(one.file), np.int64) for _ in range(2)]
        known = one.identities
        # Of files that had one inode one after another, nobody knows which one another log means.
        pairs = _numbered(known.device, known.inode)
        single = np.flatnonzero(np.bincount(pairs, minlength=1)[pairs] == 1) if len(pairs) else pairs
        numbers = known.file[single]
        at = np.searchsorted(numbers, one.file)
        found = np.flatnonzero(at < len(numbers))
        found = found[numbers[at[found]] == one.file[found]]
        for column, values in zip(own, (known.device, known.inode), strict=True):
            column[found] = values[single[at[found]]]
        device.append(own[0])
        inode.append(own[1])
    return (
        np.concatenate([one.file for one in logs]),
        np.concatenate([one.path for one in logs]),
        np.concatenate([one.shared for one in logs]),
        np.concatenate(device),
        np.concatenate(inode),
    )


def _numbered(*columns: Any) -> Ints:
    """A number for each distinct row."""
    number: Ints = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        codes = np.unique(column, return_inverse=True)[1].ravel()
        number = np.unique(number * (int(codes.max(initial=0)) + 1) + codes, return_inverse=True)[1].ravel()
    return number


def _by_name(keys: Ints, kind: Ints, names: Ints, looked_at: NDArray[np.bool_]) -> None:
    """A name that a log has not looked at is that of the file which another log of the host has found there."""
    known = np.flatnonzero(looked_at & (kind == _INODE))
    of_name = np.full(int(names.max()) + 1, -1, np.int64)
    of_name[names[known]] = keys[known]
    rest = np.flatnonzero(kind == _PATH)
    better = of_name[names[rest]]
    keys[rest] = np.where(better >= 0, better, keys[rest])


def _representatives(keys: Ints, log: Ints, file: Ints, kind: Ints, shift: Ints, lengths: Sequence[int]) -> Unified:
    """Each key's number is that of its first log, best of one that has looked at the file."""
    order = np.lexsort((file, log, keys))
    again = np.zeros(len(keys), np.bool_)  # further files of a log with one key stay files of their own
    again[order[1:]] = (keys[order[1:]] == keys[order[:-1]]) & (log[order[1:]] == log[order[:-1]])
    own = np.where(file > 0, file + shift, np.where(file < 0, file - shift, 0))
    rows = np.flatnonzero(~again)
    best = rows[np.lexsort((log[rows], file[rows] < 0, keys[rows]))]
    starts = np.flatnonzero(np.diff(keys[best], prepend=-1))
    number = np.zeros(int(keys.max()) + 1, np.int64)
    number[keys[best[starts]]] = own[best[starts]]
    new = np.where(again, own, number[keys])
    several = np.bincount(keys[rows], minlength=len(number)) > 1
    by_path = np.zeros(len(number), np.bool_)
    by_path[keys[kind == _SHARED_PATH]] = by_path[keys[kind == _PATH]] = True
    return Unified(list(_changed(file, new, own, lengths)), int((several & by_path).sum()))


def _changed(file: Ints, new: Ints, own: Ints, lengths: Sequence[int]) -> Iterator[tuple[Ints, Ints]]:
    end = 0
    for length in lengths:
        begin, end = end, end + length
        at = begin + np.flatnonzero(new[begin:end] != own[begin:end])
        order = np.argsort(file[at])
        yield file[at][order], new[at][order]


def on_shared(paths: Sequence[str | None], mounts: dict[str, str] | None) -> NDArray[np.bool_]:
    """Which of these paths are on a file system that hosts share; mounts None: it is not known."""
    if not mounts or SHARED.isdisjoint(mounts.values()):
        return np.zeros(len(paths), np.bool_)
    return np.array(
        [path is not None and path[:1] == "/" and kind_at(path, mounts) in SHARED for path in paths], np.bool_
    )


def runs_of(infos: Sequence[dict[str, Any]], names: Sequence[str]) -> list[str]:
    """The run of each log by its name, "" without one; names: of each log.

    A launcher's port or process number comes back after thousands of launches:
    what began more than a day after all others of that name had ended is another
    run, "NAME#2" and so on.
    """
    runs = list(names)
    latest: dict[str, tuple[int, int]] = {}  # by name: the last end, the run's number
    for at in sorted(range(len(infos)), key=lambda at: int(infos[at]["start"])):
        start, name = int(infos[at]["start"]), names[at]
        end, number = latest.get(name, (start, 1))
        number += start > end + _DAY
        latest[name] = max(end, start, int(infos[at]["end"] or 0)), number
        if name and number > 1:
            runs[at] = f"{name}#{number}"
    return runs


def jobs_of(infos: Sequence[dict[str, Any]], names: Sequence[str]) -> Ints:
    """A number for the job of each log: those of one name, and those that were written at the same time."""
    order = sorted(range(len(infos)), key=lambda at: int(infos[at]["start"]))
    jobs = np.zeros(len(infos), np.int64)
    last = latest = -1
    for number, at in enumerate(order):
        end = infos[at]["end"]
        if number == 0 or infos[at]["start"] > latest:
            last, latest = number, -1
        jobs[at] = last
        latest = max(latest, (1 << 63) - 1 if end is None else int(end))
    first: dict[str, int] = {}
    for at, name in enumerate(names):
        if name and first.setdefault(name, int(jobs[at])) != jobs[at]:
            jobs[jobs == jobs[at]] = first[name]
    return jobs
