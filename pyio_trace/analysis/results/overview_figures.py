"""The overview of a run as data: what `pyio-trace summary` shows first, and the key "overview" of its JSON.

Times are int ns, sizes int bytes.  None means "not known" or "does not apply".
docs/reference/summary.md explains each figure.
"""

from __future__ import annotations

from dataclasses import field, fields
from typing import Any

from pyio_trace.analysis.results.line_time import LineTime
from pyio_trace.light_dataclass import dataclass

#: The states that a process's wall time is split into, in the order of their bars.
STATES = ("io", "sync", "lock", "library", "hand_over", "waiting", "task", "other", "starting", "idle")
#: What samples divide other_ns into; blocked otherwise is the rest of it.
PARTS_OF_OTHER = ("computing", "gil", "asleep")
#: ns that a read of cached bytes takes at most: for the call, and for each byte.
BASE, PER_BYTE = 20_000, 1


@dataclass(frozen=True)
class Split:
    """The wall time of one process, or of several added up.  The states are disjoint: their sum is wall_ns.

    io_ns: in POSIX and stdio calls on files; sync_ns: in fsync and its family; lock_ns: in locks of files; library_ns:
    in requests (file objects, numpy, HDF5 ...) with none of these beneath; hand_over_ns: shared memory between
    processes, and taking over batches that were ready; waiting_ns: for other threads and processes; starting_ns: until
    the first own call, and starting workers; task_ns: own code in tasks and fetches; idle_ns: a worker outside any
    task, None for programs of their own; other_ns: the rest, computing as a rule; beside_ns: I/O of further threads
    while the main thread was in none; beside_sync_ns, beside_lock_ns: the same for syncs and locks.  These are no
    states of their own: the same wall time is in the states above.  cpu_ns: user and system time, by the kernel's
    account.  computing_ns, gil_ns, asleep_ns: of other_ns, with a processor or ready for one, waiting for the
    interpreter's lock, asleep; the rest of it is blocked otherwise.  None: there are no samples.
    """

    io_ns: int = 0
    sync_ns: int = 0
    library_ns: int = 0
    hand_over_ns: int = 0
    waiting_ns: int = 0
    starting_ns: int = 0
    task_ns: int = 0
    idle_ns: int | None = None
    other_ns: int = 0
    wall_ns: int = 0
    beside_ns: int = 0
    cpu_ns: int | None = None
    beside_sync_ns: int = 0
    lock_ns: int = 0
    beside_lock_ns: int = 0
    computing_ns: int | None = None
    gil_ns: int | None = None
    asleep_ns: int | None = None

    def state(self, name: str) -> int:
        """ns in one of STATES; 0 where it does not apply."""
        return getattr(self, f"{name}_ns") or 0

    def __add__(self, other: Split) -> Split:
        sums: dict[str, Any] = {
            one.name: _sum(getattr(self, one.name), getattr(other, one.name)) for one in fields(self)
        }
        return Split(**sums)


def _sum(one: int | None, other: int | None) -> int | None:
    """The sum of what is known."""
    return other if one is None else one if other is None else one + other


@dataclass(frozen=True)
class PackageTime:
    """What importing a package took, without the other packages that it imports."""

    package: str
    time_ns: int


@dataclass(frozen=True)
class ProcessTime:
    """One process: what it is called, how its time went, what the kernel fetched and wrote for it.

    kind: processes of the same kind do the same work ("DataLoader workers"); storage_read, storage_written: by the
    kernel's account, without this log's own pages; imports_ns: in import statements, None: not known;
    packages: those whose import took longest.
    """

    index: int
    pid: int
    kind: str
    name: str
    split: Split
    storage_read: int | None
    storage_written: int | None
    imports_ns: int | None = None
    packages: list[PackageTime] = field(default_factory=list)


@dataclass(frozen=True)
class KindTime:
    """All processes of one kind, added up."""

    kind: str
    processes: int
    split: Split


@dataclass(frozen=True)
class SlowReads:
    """Reads that took longer than reads of cached bytes do (docs/reference/summary.md has the rule).

    calls, bytes, time_ns: of the slow ones; compared, compared_ns: how many reads the rule was applied to, and how
    long these took.
    """

    calls: int = 0
    bytes: int = 0
    time_ns: int = 0
    compared: int = 0
    compared_ns: int = 0


@dataclass(frozen=True)
class Storage:
    """What came from storage, over all processes.

    read: fetched from storage, by the kernel's account; written: page cache made dirty, without this log's own
    pages; processes: how many have no account, so that both are lower bounds; slow: the reads that went there.
    """

    read: int | None
    written: int | None
    processes: int
    slow: SlowReads = SlowReads()


@dataclass(frozen=True)
class Transfer:
    """What was read, or written, in bytes.

    asked: by outermost requests that ask for bytes; moved_beneath: by POSIX and stdio beneath those; moved_outside:
    by such calls elsewhere; copied: by sendfile and the like, inside the kernel; distinct: union of the ranges of
    files; unplaced: moved where no offset is known, so that distinct is at least that and at most both;
    amplification: moved_beneath / asked, below 1 if libraries unpack what they read; None: nothing was asked for;
    filled: by how much distinct may exceed what was touched, since there were too many ranges to keep.
    """

    asked: int = 0
    moved_beneath: int = 0
    moved_outside: int = 0
    copied: int = 0
    distinct: int = 0
    unplaced: int = 0
    amplification: float | None = None
    filled: int = 0


@dataclass(frozen=True)
class Line:
    """What one source line, or task, asked for.

    line: file:line:function, or "task NAME"; own: it is the program's, and no library's; kind: "request", "wait" or
    "starting"; op: the call that took the most time there; count: how often; time_ns: sum of the outermost calls,
    over all threads; leaf_ns: of POSIX and stdio calls there; pattern: the files with the most time, None: none known;
    files: how many these are; other_files: how many others there are, if those took more time together.
    """

    line: str
    own: bool
    kind: str
    op: str
    count: int
    time_ns: int
    leaf_ns: int
    pattern: str | None
    files: int
    other_files: int = 0


@dataclass(frozen=True)
class Task:
    """All tasks of one name, which Dask, Ray or a pool ran.

    time_ns: sum of their durations, over all workers; cpu_ns: processor time of those that have it; io_ns: in POSIX
    and stdio calls on files; processes: how many ran them.
    """

    name: str
    count: int
    time_ns: int
    cpu_ns: int
    io_ns: int
    processes: int


@dataclass(frozen=True)
class FileGroup:
    """Files of one folder whose names differ in digits only, or a single file.

    role: "data", "temporary", "shared-memory", "library" or "device"; renamed_to: the pattern of their later names;
    opens, metadata_calls: of POSIX and stdio; read, written: bytes they moved, copies included; time_ns: in POSIX and
    stdio calls, without waits for FIFOs; a copy counts for both of its files;
    slow_calls, slow_ns: of reads that went to storage.
    """

    pattern: str
    role: str
    files: int
    renamed_to: str | None
    opens: int
    read: int
    written: int
    metadata_calls: int
    metadata_ns: int
    time_ns: int
    slow_calls: int = 0
    slow_ns: int = 0


@dataclass(frozen=True)
class Folder:
    """Metadata calls (stat, open, close, directories ...) on the files of one folder."""

    folder: str
    files: int
    calls: int
    time_ns: int


@dataclass(frozen=True)
class Steps:
    """The steps of an epoch but its first and last, and the waits for their batches.

    A step lasts from the arrival of a batch to the moment when the next one is asked for, whatever the trainer does in
    it.  au_percentage: 100 * step_ns / (step_ns + wait_ns), MLPerf Storage's accelerator utilization (AU) if a step
    counts as compute; accelerators are not seen, so it is an upper bound.  samples: in their batches, None: not known.
    """

    count: int
    step_ns: int
    wait_ns: int
    au_percentage: float
    samples: int | None = None
    throughput_samples_per_second: float | None = None


@dataclass(frozen=True)
class LoaderLoop:
    """The epochs of DataLoaders that one process waits for at one line, added up.

    line: as in LoaderEpoch; process: its index; epochs: how many there are; measured: those with Steps; count,
    step_ns, wait_ns: sums of these; au_mean_percentage, throughput_mean_samples_per_second: means of their figures, as
    in DLIO, None: not known (of a throughput: of one of them).
    """

    line: str | None
    process: int | None
    epochs: int
    measured: int
    count: int
    step_ns: int
    wait_ns: int
    au_mean_percentage: float | None
    throughput_mean_samples_per_second: float | None


@dataclass(frozen=True)
class LoaderEpoch:
    """One epoch of a DataLoader; its batches are joined on host, loader, epoch and number.

    loader: named after the number of its process, which another host can have as well; workers: 0 if the trainer
    fetches by itself, None: not known; batches: how many were waited for; ready: those for which not_ready_ns is 0,
    None: not known, as neither their fetches nor the workers are; wait_ns: waits for batches, without the one that
    ends the epoch, in two parts: not_ready_ns, until the fetch ended and while its worker was in a later one, and
    hand_over_ns, the rest; first_ns: of not_ready_ns, until the workers began their first fetches; fetch_ns: sum of
    the fetches; start_ns: of DataLoader.__iter__; stop_ns: the wait that ends the epoch; line: where it is waited
    for, file:line:function, None: not known; process: the index of the trainer, None: not known, or several; steps:
    None if there are fewer than three batches, or if not all waits are known, or if they are not one after the
    other.
    """

    loader: str
    epoch: int
    workers: int | None
    batches: int
    ready: int | None
    wait_ns: int
    not_ready_ns: int
    hand_over_ns: int
    first_ns: int
    fetch_ns: int
    start_ns: int
    stop_ns: int
    line: str | None = None
    process: int | None = None
    steps: Steps | None = None
    host: str = ""


@dataclass(frozen=True)
class Tracing:
    """What tracing cost.  calls_ns: in the traced calls; end_ns: from the end of the
    program to the end of packing and summary, measured; None: only known at the end of a run."""

    records: int
    calls_ns: int
    end_ns: int | None = None


@dataclass(frozen=True)
class Overview:
    """All of it; lists have the largest first.  wall: wall time by line, where the run was sampled."""

    cores: int | None
    kinds: list[KindTime]
    processes: list[ProcessTime]
    storage: Storage
    lines: list[Line]
    files: list[FileGroup]
    folders: list[Folder]
    loaders: list[LoaderEpoch]
    tracing: Tracing
    tasks: list[Task] = field(default_factory=list)
    read: Transfer = Transfer()
    written: Transfer = Transfer()
    loops: list[LoaderLoop] = field(default_factory=list)
    wall: list[LineTime] = field(default_factory=list)
