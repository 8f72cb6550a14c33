"""A live log as a source of the operations table.

Ties the parts of the join together, each made when it is first asked for and
once: survey, files, stacks, offsets, details.  Rows come in the order of ids.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pyio_trace import events
from pyio_trace.join import parallel
from pyio_trace.join.accounts import accounts_of
from pyio_trace.join.appends import Offsets
from pyio_trace.join.arrays import of_texts
from pyio_trace.join.candidates import Candidates
from pyio_trace.join.details import Details
from pyio_trace.join.files import Files
from pyio_trace.join.links import Links, links_of
from pyio_trace.join.losses import read_counters, read_info, read_losses
from pyio_trace.join.mappings import read_mappings
from pyio_trace.join.positions import Moves
from pyio_trace.join.processes import Process, process_ids, read_processes
from pyio_trace.join.ring import Ring
from pyio_trace.join.rows import Rows
from pyio_trace.join.stacks import Stacks
from pyio_trace.join.starts import add_lines
from pyio_trace.join.survey import BLOCK_ROWS, Survey
from pyio_trace.join.vocabulary import Vocabulary
from pyio_trace.log.heap import Heap
from pyio_trace.log.live import LiveLog
from pyio_trace.log.runs import Run

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Names:
    """The op dictionary: texts, and its index by operation number and by heap slot of a span's name (or -1)."""

    texts: list[str]
    by_number: NDArray[np.int32]
    by_slot: NDArray[np.int32]


class LiveSource:
    """See pyio_trace.join.source.Source; raises what LiveLog raises."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._log = LiveLog(path)
        self._heap = Heap(self._log)
        self._values: dict[str, pa.Array] = {}
        self.clock = self._log.clock
        self.words = Vocabulary(self._log.op_rows)
        self.slots = self._heap.slots
        self._processes = read_processes(self._log, self._heap)
        self.pids = np.array([process.pid for process in self._processes] or [0], np.int32)
        pages = process_ids(self._log) >> 8
        self.process_of_page = np.full(int(pages.max(initial=0)) + 2, -1, np.int32)
        self.process_of_page[pages] = np.arange(len(pages), dtype=np.int32)
        #: by process: ticks before which its interpreter was starting up (--follow=all)
        self.python_since = self._log.processes()["python_since"] if self._processes else np.zeros(1, np.uint64)

    # ---- the parts, each made once

    @cached_property
    def survey(self) -> Survey:
        return Survey(self._log, self.words, self.slots)

    @cached_property
    def files(self) -> Files:
        return Files(self._heap, self.slots, self.survey.objects, self.survey.named)

    @cached_property
    def stacks(self) -> Stacks:
        return Stacks(self._heap, self.slots, self.survey.stacks)

    @cached_property
    def process_rows(self) -> list[dict[str, Any]]:
        processes = self._accounted
        add_lines(processes, self._log, self._heap, self.slots, self.words)
        return [dict(vars(process)) for process in processes]

    @cached_property
    def offsets(self) -> Offsets:
        survey = self.survey
        offsets = Offsets(self._log, self.words, self.slots, self.files, survey.moves, survey.ext)
        survey.moves = Moves(0)  # they are as large as the log
        return offsets

    @cached_property
    def details(self) -> Details:
        return Details(self._heap, self.slots, self.survey, self.files, self.clock, self._log.sums())

    @cached_property
    def ring(self) -> Ring | None:
        """Of a log whose room was used again; else None."""
        if not self._log.header["ring_slots"]:
            return None
        return Ring(list(self._log.blocks(BLOCK_ROWS)), self.words)

    @cached_property
    def links(self) -> Links | None:
        """What finds parents afterwards; None: there are none to be found."""
        links = links_of(self._log, self.words, self.slots, self.files, self.survey)
        self.survey.spans.clear()
        self.survey.opened.clear()
        return links

    @cached_property
    def plain_details(self) -> pa.Array:
        """The details of rows whose parent is known, or is not looked for."""
        return self.details.values()

    @cached_property
    def unsure(self) -> Candidates | None:
        """The details of the other ones; None: there are none."""
        if self.links is None or not self.links.may_list:
            return None
        self.plain_details  # noqa: B018  before several threads ask for it
        parts = parallel.in_order(
            lambda portion: Rows(self, self._log.load(portion, lasting=False)).unsure(), self._log.portions(BLOCK_ROWS)
        )
        found = Candidates(parts, len(self.plain_details))
        return found if len(found.values) else None

    @cached_property
    def names(self) -> Names:
        index: dict[str, int] = {}
        by_number = np.array([index.setdefault(name, len(index)) for name in self.words.names], np.int32)
        by_slot = np.full(self.slots.count, -1, np.int32)
        spans = self.survey.span_names
        texts = [self._heap.text(identity) for identity in spans.tolist()]
        by_slot[self.slots.of(spans.astype(np.uint32))] = [
            -1 if text is None else index.setdefault(text, len(index)) for text in texts
        ]
        return Names(list(index), by_number, by_slot)

    def values(self, column: str) -> pa.Array:
        """The dictionary of a dictionary column, the same array at every call."""
        import pyarrow as pa

        if column not in self._values:
            if column == "detail":
                parts = [self.plain_details] + ([] if self.unsure is None else [self.unsure.values])
                self._values[column] = pa.concat_arrays(parts)
            else:
                self._values[column] = of_texts(self._texts(column))
        return self._values[column]

    def _texts(self, column: str) -> Sequence[str]:
        if column == "op":
            return self.names.texts
        if column == "path":
            return self.files.paths.texts
        if column == "site":
            return self.stacks.sites
        if column == "stack":
            return self.stacks.folded
        if column == "host":
            return [bytes(self._log.header["host"]).decode("utf-8", "backslashreplace")]
        return {"layer": events.LAYERS, "op_class": events.CLASSES, "link": events.LINKS}[column]

    # ---- what a source gives

    def rows(self) -> int:
        return self.survey.rows

    def batches(self, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        schema = events.arrow_schema(columns)
        self._prepare(columns)

        def batch(portion: list[Run]) -> pa.RecordBatch:
            block = self._log.load(portion, lasting=False)
            return pa.RecordBatch.from_arrays(Rows(self, block).arrays(columns), schema=schema)

        for part in parallel.in_order(batch, self._log.portions(min(rows, BLOCK_ROWS))):
            if len(part):
                yield part

    def _prepare(self, columns: Sequence[str]) -> None:
        """Makes what the columns need, before several threads ask for it."""
        for column in events.columns_of(columns):
            if column.type == "dictionary":
                self.values(column.name)
        if {"file", "fd", "path"} & set(columns):
            self.files  # noqa: B018
        if "offset" in columns:
            self.offsets  # noqa: B018
        if {"parent", "link"} & set(columns):
            self.ring  # noqa: B018
            self.links  # noqa: B018
        if "imported" in columns:
            self.stacks  # noqa: B018

    def processes(self) -> list[dict[str, Any]]:
        return list(self.process_rows)

    def mappings(self) -> list[dict[str, Any]]:
        return self._mappings

    @cached_property
    def _mappings(self) -> list[dict[str, Any]]:
        return read_mappings(self._log, self._heap, self._processes)

    @cached_property
    def _accounted(self) -> list[Process]:
        """The process table with what the kernel says; that takes a look over all records."""
        mapped: dict[int, tuple[int, int]] = {}
        for row in self._mappings:
            touched, written = mapped.get(row["process"], (0, 0))
            mapped[row["process"]] = (min(touched + row["touched"], 1 << 62), min(written + row["written"], 1 << 62))
        accounts = accounts_of(self._log, self.words, self.survey.moved)
        result = []
        for process, account in zip(self._processes, accounts, strict=True):
            known = {} if account is None else account._asdict()
            if process.index in mapped:
                known |= dict(zip(("mapped_touched", "mapped_written"), mapped[process.index], strict=True))
            result.append(Process(**{**vars(process), **known}))
        return result

    def counters(self) -> list[dict[str, Any]]:
        return self._counters

    @cached_property
    def _counters(self) -> list[dict[str, Any]]:
        return read_counters(self._log, self.words, self._processes)

    def losses(self) -> dict[str, Any]:
        return read_losses(self._log, self._accounted, self._mappings)

    def info(self) -> dict[str, Any]:
        return read_info(self._log, self._processes, self.rows())
