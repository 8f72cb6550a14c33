"""Recorded reads from other numbers of processes: 1, 2, 4 and so on, up to the cores that there are.

For a loader, the epochs are then simulated with that many workers, and with reads
as much slower or faster as was measured.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter_ns

import numpy as np
from numpy.typing import NDArray

from pyio_trace.insights.finding import Readers, Verified
from pyio_trace.insights.loader_model import Model
from pyio_trace.insights.trials import page_cache
from pyio_trace.insights.trials.attempt import LARGEST, Attempt, cores
from pyio_trace.insights.trials.loaders import loader_of
from pyio_trace.insights.trials.originals import Originals
from pyio_trace.insights.trials.recorded import Rows
from pyio_trace.insights.trials.replay import NotTried
from pyio_trace.insights.trials.rounds import in_rounds, outcome_of, quartiles, range_of
from pyio_trace.insights.trials.side_by_side import longest
from pyio_trace.units import seconds as text

#: (kind of the call: "open", "read" or "close"; path; offset; bytes)
Step = tuple[str, str, int, int]
_KINDS = ("open", "read", "close")
#: Files of which is looked whether they are cached, at most.
_LOOKED_AT = 64


@dataclass(frozen=True)
class Readings:
    """Reads that are issued again from several numbers of processes.

    parts: what is read together by one process; recorded: how many parts the log
    has; in_run: processes that read them in the run, 0: the trainer itself;
    others: numbers of processes that the remedy could mean; loader: whose
    batches they are, None: it is not about a loader.  ends: descriptor -> bytes up
    to the last that is read, of files that are looked at; why: there are no parts.
    """

    files: Originals
    parts: list[list[Step]]
    recorded: int
    in_run: int
    others: Sequence[int]
    loader: Model | None = None
    ends: dict[int, int] = field(default_factory=dict)
    why: str = ""

    def verified(self, seconds: float, cold: bool, estimate: int) -> Verified:
        """What trying it for about so many seconds showed; cold: without the page cache; estimate: what the finding
        says that the remedy saves, ns.  Raises NotTried."""
        counts = _counts(min(self.in_run, cores()), len(self.parts)) if self.parts else []
        caches: set[str] = set()
        times: dict[int, NDArray[np.float64]] = {}
        operations = 0
        if counts:
            runs = [self._run(count) for count in counts]
            found, operations = in_rounds(
                runs, len(self.parts), seconds, lambda: self._prepare(cold),
                lambda: caches.add(page_cache.state(self.ends)), together=max(counts),
            )  # fmt: skip
            times = {count: np.array(own, np.float64) for count, own in zip(counts, found, strict=True)}
        scale = self.recorded / max(operations, 1)
        readers = {count: own * scale for count, own in times.items()}
        cache = "" if not caches else caches.pop() if len(caches) == 1 else "partly cached"
        return self._shown(readers, operations, cache, estimate)

    def _shown(self, readers: dict[int, NDArray[np.float64]], operations: int, cache: str, estimate: int) -> Verified:
        usual = readers.get(max(min(self.in_run, cores()), 1), np.ones(1))
        wholes: dict[int, NDArray[np.float64]] = dict(readers)
        plain = usual
        if self.loader is not None:
            plain = np.full(len(usual), self.loader.length(), np.float64)
            wholes = {count: self._laid_out(count, readers, usual) for count in {0, *readers, *self.others}}
        others = [count for count in self.others if count in wholes]
        best = min(others, key=lambda count: float(np.median(wholes[count])), default=None)
        words, table = "; ".join(self._words(readers, wholes, best)), self._table(readers, wholes, plain)
        memory = None if self.loader is None else self.loader.length(without_io=True)
        before, rounds, of = int(np.median(plain)), len(usual) if readers else 0, self.recorded if readers else 0
        if best is None or not rounds:
            after = before if memory is None else memory
            if best is not None:  # what the workers save is no remedy of I/O
                after = min(after, int(np.median(wholes[best])))
            spread = 3 * (max(before - after, 0),)
            return Verified(
                "bound", words, before, after, *spread, rounds, operations, of, cache, readers=table,
                from_memory_ns=memory,
            )  # fmt: skip
        low, saved, high = quartiles(plain - wholes[best])
        ranges = range_of(plain), range_of(wholes[best])
        outcome = outcome_of(*ranges, saved, estimate, whole=True)
        return Verified(
            outcome, words, before, before - saved, saved, low, high, rounds, operations, of, cache, readers=table,
            from_memory_ns=memory, plain_range_ns=ranges[0], remedy_range_ns=ranges[1],
        )  # fmt: skip

    def _laid_out(
        self, workers: int, readers: dict[int, NDArray[np.float64]], usual: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """ns of the epochs with so many workers, by round.

        Each of n processes does an nth of the reads, so that n times the time is what they took.
        """
        assert self.loader is not None
        reading = max(workers, 1)
        if reading not in readers:
            slower = np.ones(len(usual))
        else:
            slower = readers[reading] * reading / (usual * max(min(self.in_run, cores()), 1))
        return np.array([self.loader.length(workers, float(one)) for one in slower], np.float64)

    def _table(
        self, readers: dict[int, NDArray[np.float64]], wholes: dict[int, NDArray[np.float64]],
        plain: NDArray[np.float64],
    ) -> list[Readers]:  # fmt: skip
        def laid_out_ns(count: int) -> int:  # rounded as what the best of them saves is
            return int(np.median(plain)) - quartiles(plain - wholes[count])[1]

        found = []
        for count, times in sorted(readers.items()):
            low, median, high = quartiles(times)
            laid_out = None if self.loader is None else laid_out_ns(count)
            found.append(Readers(count, median, low, high, laid_out))
        if self.loader is not None and readers:
            found.insert(0, Readers(0, found[0].ns, found[0].low_ns, found[0].high_ns, laid_out_ns(0)))
        return found

    def _words(
        self, readers: dict[int, NDArray[np.float64]], wholes: dict[int, NDArray[np.float64]], best: int | None
    ) -> list[str]:
        """What to know of the figures."""
        words = []
        if best is not None:
            word = "epochs laid out with {} instead of {} workers" if self.loader else "{} instead of {} processes"
            words.append(word.format(best, self.in_run))
            if not readers:
                words[-1] += f" take {text(int(np.median(wholes[best])))}"
        if readers:
            each = [f"{text(int(np.median(own)))} from {count}" for count, own in sorted(readers.items())]
            words.append(f"the reads take {', '.join(each)} {'process' if max(readers) == 1 else 'processes'}")
        elif self.loader is not None:
            words.append(self.why)
        if self.loader is None:
            return words
        if best is None:
            words.append(f"more workers than {cores()} cores are not tried")
        if not self.in_run:
            words.append("without starting workers and handing batches over, which this run did not")
        whole, memory = self.loader.length(), self.loader.length(without_io=True)
        words.append(
            f"epochs of {text(whole)} take {text(memory)} with all batches from memory: no remedy of I/O saves more "
            f"than {text(max(whole - memory, 0))}"
        )
        return words

    def _prepare(self, cold: bool) -> None:
        if not cold:
            return
        page_cache.drop(self.ends)
        for path in {path for part in self.parts for kind, path, _, _ in part if kind == "open"}:
            descriptor = self.files.again(path)
            page_cache.drop([descriptor])
            os.close(descriptor)

    def _run(self, processes: int) -> Callable[[int], int]:
        """Reads the first n parts, which the processes take in turn."""

        def run(count: int) -> int:
            return longest(lambda number: self._read(self.parts[number:count:processes]), processes, lambda _: None)

        return run

    def _read(self, parts: Sequence[Sequence[Step]]) -> int:
        files, pread = self.files, os.pread
        begin = perf_counter_ns()
        for part in parts:
            opened: dict[str, int] = {}
            for kind, path, offset, size in part:
                if kind == "read":
                    pread(opened[path] if path in opened else files.open(path), size, offset)
                elif path in opened:
                    os.close(opened.pop(path))
                if kind == "open":
                    opened[path] = files.again(path)
            for descriptor in opened.values():
                os.close(descriptor)
        return perf_counter_ns() - begin


def of_files(attempt: Attempt) -> Readings:
    """The reads of one process, by several at once, a part by each."""
    rows = attempt.rows.where(layer=("posix", "stdio"), op_class=("read", "write")).heaviest()
    if 2 * len(rows.where(op_class="read")) < len(rows):
        raise NotTried("needs the program: what it writes comes from other processes")
    steps = _steps(rows.where(op_class="read"))
    ends = _opened(attempt.originals, [steps])
    recorded = max(rows.where(op_class="read").recorded(attempt.rows), len(steps))
    others = [count for count in _counts(1, len(steps)) if count > 1]
    if not others:
        raise NotTried("there is one core, or one read")
    return Readings(attempt.originals, [[step] for step in steps], recorded, 1, others, ends=ends)


def more(attempt: Attempt) -> Readings:
    """A loader's reads with more workers than it had, and what no workers at all could save."""
    loader, parts, ends, why = _of_loader(attempt)
    counts = {*_counts(1, len(loader.batches)), *_advised(attempt)}
    others = sorted(count for count in counts if count > loader.workers)
    return Readings(attempt.originals, parts, len(loader.batches), loader.workers, others, loader, ends, why)


def fewer(attempt: Attempt) -> Readings:
    """A loader's reads with as few workers as are advised: in the trainer itself, with none."""
    loader, parts, ends, why = _of_loader(attempt)
    others = _advised(attempt) or [0]
    return Readings(attempt.originals, parts, len(loader.batches), loader.workers, others, loader, ends, why)


def _advised(attempt: Attempt) -> list[int]:
    """The number of workers that the finding advises."""
    found = [one.values.get("advised") for one in attempt.finding.evidence]
    return [count for count in found if isinstance(count, int)][:1]


def _of_loader(attempt: Attempt) -> tuple[Model, list[list[Step]], dict[int, int], str]:
    """The loader, what each of its fetches reads, the files of Readings.ends, and why there are none if so."""
    loader = loader_of(attempt)
    rows = attempt.rows.where(layer=("posix", "stdio"), op_class=_KINDS)
    places: dict[int, list[int]] = defaultdict(list)
    for place, task in enumerate(rows.columns["task_id"].tolist()):
        places[task].append(place)
    parts = [_steps(rows.at(np.array(places[batch.ident]))) for batch in loader.batches if batch.ident in places]
    read = {path for part in parts for kind, path, _, _ in part if kind == "read"}
    why = "the log has no reads of files in its fetches"
    for path in sorted(read):
        try:
            os.close(attempt.originals.open_anew(path))
        except NotTried as error:
            read.remove(path)
            why = f"the reads are not tried: {error}"
    parts = [own for part in parts if (own := [step for step in part if step[1] in read])]
    try:
        return loader, parts, _opened(attempt.originals, parts), why
    except NotTried as error:
        return loader, [], {}, f"the reads are not tried: {error}"


def _steps(rows: Rows) -> list[Step]:
    """The calls on files that are read, with the place of each read."""
    steps: list[Step] = []
    position: dict[str, int] = {}
    kinds, paths = rows.texts("op_class"), rows.texts("path")
    read = {path for kind, path, size in zip(kinds, paths, rows.sizes, strict=True) if kind == "read" and path and size}
    for kind, path, offset, size in zip(kinds, paths, rows.columns["file_offset"].tolist(), rows.sizes, strict=True):
        if path not in read or (kind == "read" and not size):
            continue
        if kind == "open":
            position[path] = 0
        offset, size = offset if offset >= 0 else position.get(path, 0), min(size, LARGEST)
        if kind == "read":
            position[path] = offset + size
        steps.append((kind, path, offset, size))
    return steps


def _opened(files: Originals, parts: Sequence[Sequence[Step]]) -> dict[int, int]:
    """Opens the files that are read without being opened, and others that are looked at: descriptor -> bytes up to the
    last that is read.  Raises NotTried if a file is not what it was."""
    ends: dict[str, int] = {}
    unopened: dict[str, None] = {}
    for part in parts:
        opened = set()
        for kind, path, offset, size in part:
            if kind == "open":
                opened.add(path)
            elif kind == "read":
                ends[path] = max(ends.get(path, 0), offset + size)
                if path not in opened:
                    unopened[path] = None
    looked_at = [*unopened, *(path for path in ends if path not in unopened)][: max(len(unopened), _LOOKED_AT)]
    return {files.open(path): ends[path] for path in looked_at}


def _counts(in_run: int, parts: int) -> list[int]:
    """1, 2, 4 and so on, and as many as there were, up to the cores and the parts."""
    most = min(cores(), parts)
    powers = [1 << power for power in range(max(most, 1).bit_length())]
    return sorted({count for count in (*powers, max(in_run, 1)) if count <= most})
