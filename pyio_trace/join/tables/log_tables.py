"""The tables that turn a live log's records into rows, each made once and at first use.

Ties the parts of the join together: first pass, files, call stacks, offsets,
parents, details.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pyio_trace import enums, events
from pyio_trace.enums import Role
from pyio_trace.join.base import parallel
from pyio_trace.join.base.arrow_arrays import of_codes, of_texts
from pyio_trace.join.base.dictionaries import without_repeats
from pyio_trace.join.base.freed_memory import give_back
from pyio_trace.join.base.roles import is_shared_memory
from pyio_trace.join.base.vocabulary import Vocabulary
from pyio_trace.join.offsets.positions import AllPositionEvents
from pyio_trace.join.offsets.record_offsets import Offsets
from pyio_trace.join.parents import ambiguous_parents
from pyio_trace.join.parents.ambiguous_parents import AmbiguousDetails
from pyio_trace.join.parents.enclosures import Enclosures
from pyio_trace.join.parents.ended_parents import EndedParents
from pyio_trace.join.parents.parent_finder import ParentFinder, finder_for
from pyio_trace.join.parents.ring_parents import RingParents
from pyio_trace.join.processes.start_lines import stack_of_start
from pyio_trace.join.references.call_stacks import Stacks
from pyio_trace.join.references.commands import Commands
from pyio_trace.join.references.file_table import Files
from pyio_trace.join.references.inode_reuse import names_in_sums
from pyio_trace.join.references.log_parts import LogParts
from pyio_trace.join.references.own_code import OwnCode
from pyio_trace.join.references.sent_code import SentCode
from pyio_trace.join.tables.detail_column import Details, outputs_of
from pyio_trace.join.tables.first_pass import FirstPass
from pyio_trace.light_dataclass import dataclass
from pyio_trace.log import layout
from pyio_trace.log.blocks import BLOCK_ROWS, Block
from pyio_trace.log.extents import Extent
from pyio_trace.log.heap import Heap, ObjectNumbers
from pyio_trace.log.layout import FILE_KINDS, Trait
from pyio_trace.log.live import LiveLog

if TYPE_CHECKING:
    import pyarrow as pa

#: Places that processes are forked at, of which frames are left out; nearly all programs have one or two.
_MOST_FORKS = 64
#: From this many records on, freed memory is given back to the system after each step.
_MANY = 1 << 22


@dataclass(frozen=True)
class OpNames:
    """The dictionary of the op column: texts, and the index of one by operation number and by object number of a span's
    name (or -1)."""

    texts: list[str]
    by_number: NDArray[np.int32]
    by_object: NDArray[np.int32]


class LogTables:
    """The tables of one live log."""

    def __init__(self, log: LiveLog, heap: Heap, ranks: Sequence[int | None] = (), own: OwnCode | None = None) -> None:
        """ranks: by process; own: tells the lines of the log apart."""
        self.log, self.heap, self.own = log, heap, own or OwnCode()
        self.clock = log.clock
        self.words = Vocabulary(log.op_rows)
        self._dictionaries: dict[str, pa.Array] = {}
        self._ended: EndedParents | None = None
        processes = log.processes()
        self.pids = processes["pid"].view(np.int32).copy() if len(processes) else np.zeros(1, np.int32)
        #: by process; -1: it has no rank
        self.ranks = np.array([-1 if rank is None else rank for rank in ranks] or [-1], np.int32)
        pages = log.process_ids >> 8  # an entry begins a page, which has 256 ids
        self._process_of_page = np.full(int(pages.max(initial=0)) + 2, -1, np.int32)
        self._process_of_page[pages] = np.arange(len(pages), dtype=np.int32)
        #: by process: the ticks before which its interpreter was starting up (--follow=all)
        self.python_since = processes["python_since"] if len(processes) else np.zeros(1, np.uint64)

    def load(self, portion: list[Extent]) -> Block:
        """The rows of a portion, without internal records; good until the same thread calls this again."""
        block = self.log.load(portion, lasting=False)
        hidden = (self.words.traits.take(block.op) & Trait.HIDDEN) != 0
        block = block.where(~hidden) if hidden.any() else block
        if self._ended is not None:
            self._ended.correct_records(block)
        return block

    def process_of(self, block: Block) -> NDArray[np.int32]:
        """The process index of each row, -1 for none."""
        return self._process_of_page.take(block.process >> 8, mode="clip")

    def _release(self) -> None:
        """Frees what can be made again, and gives freed memory back to the system if the log is large."""
        self.heap.release()
        if self.log.record_slots() > _MANY:
            give_back()

    # ---- the tables

    @cached_property
    def scan(self) -> FirstPass:
        found = FirstPass(self.log, self.words, self.heap.slots)
        self._release()
        return found

    @property
    def numbers(self) -> ObjectNumbers:
        return self.scan.numbers

    @cached_property
    def files(self) -> Files:
        summed = names_in_sums(self.log.sums(), self.words)
        return Files(self.heap, self.numbers, self.scan.objects, self.scan.names, summed)

    @property
    def _parts(self) -> LogParts:
        return LogParts(self.log, self.words, self.numbers, self.files)

    @cached_property
    def stacks(self) -> Stacks:
        return Stacks(self.heap, self.numbers, self.scan.stacks, SentCode(self.log, self.heap), self.own, self.forks[0])

    @cached_property
    def forks(self) -> tuple[list[int], NDArray[np.int8]]:
        """(ids of the stacks at which processes were forked; by process: the index of its one, -1 none, and once more
        -1 for none)."""
        stacks: dict[int, int] = {}
        number = np.full(len(self.log.process_ids) + 1, -1, np.int8)
        entries = self.log.processes()
        for at in np.flatnonzero(entries["start"] == layout.START_FORK).tolist():
            stack = stack_of_start(self.log, self.words, int(entries["started_by"][at]) or None)
            if stack and (stack in stacks or len(stacks) < _MOST_FORKS):
                number[at] = stacks.setdefault(stack, len(stacks))
        return list(stacks), number

    def fork_of(self, process: NDArray[np.int32]) -> NDArray[np.int8] | None:
        """For process indexes (-1 none): which stack the process was forked at; None: no process was forked."""
        stacks, number = self.forks
        return number.take(process, mode="wrap") if stacks else None

    @cached_property
    def commands(self) -> Commands:
        return Commands(self.words, self.scan.opens)

    @cached_property
    def offsets(self) -> Offsets:
        scan = self.scan
        offsets = Offsets(self._parts, scan.events, scan.wide, self.numbers.of(scan.appended.astype(np.uint32)))
        scan.events = AllPositionEvents(0)  # frees arrays as large as the log
        return offsets

    @cached_property
    def details(self) -> Details:
        copied = self.scan.op_counts[(self.words.traits & Trait.COPIES) != 0].any()
        outputs = outputs_of(self.log.sums(), self.words) if copied else None
        return Details(self.heap, self.numbers, self.scan, self.words, self.files, self.clock, self.log.sums(), outputs)

    @cached_property
    def ring(self) -> RingParents | None:
        """For a log whose chunks are reused; else None."""
        if not self.log.header["ring_slots"]:
            return None
        return RingParents(list(self.log.blocks(BLOCK_ROWS)), self.words)

    @cached_property
    def parent_finder(self) -> ParentFinder | None:
        """None: the log has no parents to be found."""
        scan = self.scan
        self._ended = scan.ended
        finder = finder_for(self._parts, scan.spans, scan.op_counts)
        scan.spans.spans.clear()
        scan.spans.opened.clear()
        return finder

    @cached_property
    def enclosures(self) -> Enclosures:
        found = self.scan.enclosing
        starts = self.log.processes()["start"]
        forked = bool(np.isin(starts, (layout.START_FORK, layout.START_VFORK)).any())
        return Enclosures(found.table, found.nested, self.log.process_of if forked else None)

    @cached_property
    def file_roles(self) -> NDArray[np.uint8] | None:
        """By object number: the role of calls on such a file, 0 for that of the call; None: there are no such files."""
        shared = np.append(is_shared_memory(self.files.paths.texts), False)[self.files.path]
        fifo = self.files.kind == FILE_KINDS.index("fifo")
        if not (shared.any() or fifo.any()):
            return None
        roles = np.where(shared, np.uint8(Role.TRANSPORT), np.uint8(0))
        roles[fifo] = Role.WAIT
        return roles

    @cached_property
    def plain_details(self) -> pa.Array:
        """The details of rows without ambiguous parents."""
        return self.details.values()

    @cached_property
    def ambiguous_details(self) -> AmbiguousDetails | None:
        """The details of rows with ambiguous parents; None: there are none."""
        finder = self.parent_finder
        if finder is None or not finder.may_be_ambiguous:
            return None
        plain = self.plain_details  # made before several threads ask for it

        def details_of(portion: list[Extent]) -> tuple[NDArray[np.int64], pa.DictionaryArray] | None:
            block = self.load(portion)
            found = finder.ambiguous(block)
            if found is None:
                return None
            index = self.details.index_of(block, self.words, self.numbers)[found.rows]
            return block.ids[found.rows], ambiguous_parents.texts(found, of_codes(index, plain))

        parts = parallel.map_in_order(details_of, self.log.portions(BLOCK_ROWS))
        result = AmbiguousDetails(parts, len(plain))
        return result if len(result.values) else None

    @cached_property
    def op_names(self) -> OpNames:
        index: dict[str, int] = {}
        by_number = np.array([index.setdefault(name, len(index)) for name in self.words.names], np.int32)
        by_object = np.full(self.numbers.count, -1, np.int32)
        named, placed = self.scan.span_names, self.scan.placed_spans
        texts = [self.heap.text(identity) for identity in named.tolist()]
        texts += [self.heap.text(self.heap.base(identity)) for identity in placed.tolist()]
        by_object[self.numbers.of(np.concatenate([named, placed]).astype(np.uint32))] = [
            -1 if text is None else index.setdefault(text, len(index)) for text in texts
        ]
        return OpNames(list(index), by_number, by_object)

    # ---- dictionaries

    @cached_property
    def _distinct_details(self) -> tuple[pa.Array, NDArray[np.int32] | None]:
        """(the dictionary of the detail column, the place there of each of plain_details and then ambiguous_details;
        -1: none; None instead: they are at the same places).  Texts repeat where different ticks round to the same
        nanoseconds, and where a program gives a span the details that coalesced calls have."""
        import pyarrow as pa

        ambiguous = self.ambiguous_details
        parts = [self.plain_details, *([] if ambiguous is None else [ambiguous.values])]
        values, place = without_repeats(pa.concat_arrays(parts))
        return values, None if place is None else np.append(place, np.int32(-1))

    def as_details(self, index: NDArray[np.int32]) -> pa.DictionaryArray:
        """The detail column of rows, by places in plain_details and then ambiguous_details; -1: none."""
        values, place = self._distinct_details
        return of_codes(index if place is None else place.take(index, mode="wrap"), values)

    def dictionary(self, column: str) -> pa.Array:
        """The dictionary of a dictionary column; the same array at every call."""
        if column == "detail":
            return self._distinct_details[0]
        if column not in self._dictionaries:
            self._dictionaries[column] = of_texts(self._texts(column))
        return self._dictionaries[column]

    def _texts(self, column: str) -> Sequence[str]:
        if column == "op":
            return self.op_names.texts
        if column == "path":
            return self.files.paths.texts
        if column == "site":
            return self.stacks.sites
        if column == "call_stack":
            return self.stacks.folded
        if column == "command":
            return self.commands.texts
        if column == "host":
            return [bytes(self.log.header["host"]).decode("utf-8", "backslashreplace")]
        words = {
            "layer": enums.LAYERS, "op_class": enums.CLASSES, "link": enums.LINKS, "op_role": enums.ROLES,
            "file_kind": FILE_KINDS,
        }  # fmt: skip
        return words[column]

    def prepare(self, columns: Sequence[str]) -> None:
        """Makes the tables that these columns need, before several threads ask for them."""
        for column in events.columns_of(columns):
            if column.type == "dictionary":
                self.dictionary(column.name)
        if {"file", "fd", "path", "to_file", "file_kind"} & set(columns):
            self.files  # noqa: B018
        if {"cpu_time", "command"} & set(columns):
            self.scan  # noqa: B018
        if {"file_offset", "to_file_offset"} & set(columns):
            self._release()  # working the offsets out takes the most memory
            self.offsets  # noqa: B018
        if {"parent", "link", *events.ENCLOSING} & set(columns):
            self.ring  # noqa: B018
            self.parent_finder  # noqa: B018
        if set(events.ENCLOSING) & set(columns):
            self.enclosures  # noqa: B018
            self.file_roles  # noqa: B018
        if {"imported", "in_import", "submitted"} & set(columns):
            self.stacks  # noqa: B018
        self._release()
