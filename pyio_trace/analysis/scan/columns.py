"""A decoded batch's columns as numpy arrays for reducers, in which nulls are numbers too.

Each array is made when it is first asked for, so a reducer pays for the columns it uses.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pyio_trace.enums import CLASSES, LAYERS, ROLES, Layer, OpClass
from pyio_trace.join.base.arrow_arrays import codes, numbers, truths
from pyio_trace.join.base.roles import LEAVES

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: The columns that say which operations count, and as what.
MEANING = ("layer", "op_class", "op_role", "outer", "imported", "calls")


class Columns:
    """The columns of one batch."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch

    def __len__(self) -> int:
        return int(self._batch.num_rows)

    def numbers(self, name: str, missing: int = 0) -> Ints:
        """A column of integers as int64; missing: what a null becomes."""
        return numbers(self._batch.column(name), missing).astype(np.int64, copy=False)

    def codes(self, name: str) -> Ints:
        """Codes of a dictionary column, -1 for null."""
        return codes(self._batch.column(name)).astype(np.int64)

    def is_dictionary(self, name: str) -> bool:
        """Whether a column is one of words: codes() then, else numbers()."""
        return isinstance(self._batch.column(name), pa.DictionaryArray)

    def truths(self, name: str, negated: bool = False) -> Bools:
        """A column of booleans."""
        found = truths(self._batch.column(name))
        return ~found if negated else found

    def words(self, name: str) -> list[str]:
        """The dictionary of a column that has few words, such as op."""
        found: list[str] = self._batch.column(name).dictionary.to_pylist()
        return found

    def places(self, name: str, words: tuple[str, ...]) -> NDArray[np.int8]:
        """For a column with few different words: the index in `words` of each row's; any number for a null."""
        known = np.array([words.index(one) for one in self.words(name)], np.int8)
        return known.take(codes(self._batch.column(name)))

    def of_words(self, name: str, chosen: Iterable[str]) -> Bools:
        """Rows whose word is one of these; only for columns with few words."""
        wanted = set(chosen)
        known = [code for code, word in enumerate(self.words(name)) if word in wanted]
        found: Bools = np.isin(codes(self._batch.column(name)), known)
        return found

    # ---- what an operation is

    @cached_property
    def layer(self) -> NDArray[np.int8]:
        """Index into enums.LAYERS."""
        return self.places("layer", LAYERS)

    @cached_property
    def kind(self) -> NDArray[np.int8]:
        """Class, as index into enums.CLASSES."""
        return self.places("op_class", CLASSES)

    @cached_property
    def role(self) -> NDArray[np.int8]:
        """Number of enums.Role."""
        return self.places("op_role", ROLES)

    @cached_property
    def imported(self) -> Bools:
        """Made by Python's import system."""
        return self.truths("imported")

    @cached_property
    def leaf(self) -> Bools:
        """Calls of POSIX and of C streams on files, whatever is around them."""
        found: Bools = LEAVES.take(self.role) & (self.layer >= Layer.STDIO)
        return found

    @cached_property
    def called(self) -> Bools:
        """Calls of POSIX and of C streams, also those that wait for another process or hand data to it."""
        found: Bools = (self.layer >= Layer.STDIO) & (self.kind != OpClass.PROCESS)
        return found

    @cached_property
    def outer(self) -> Bools:
        """What counts as I/O of its process: outermost requests, and calls that are in no request."""
        return self.truths("outer")

    @cached_property
    def moves(self) -> tuple[Bools, Bools]:
        """(reads, writes) of all that is `called`."""
        copies = self.kind == OpClass.COPY
        reads, writes = (self.called & ((self.kind == one) | copies) for one in (OpClass.READ, OpClass.WRITE))
        return reads, writes

    @cached_property
    def transfers(self) -> tuple[Bools, Bools]:
        """(reads, writes) of files.  A copy is both."""
        reads, writes = self.moves
        return self.leaf & reads, self.leaf & writes

    # ---- amounts

    @cached_property
    def time(self) -> Ints:
        """Begin, ns since the epoch."""
        return self.numbers("time")

    @cached_property
    def duration(self) -> Ints:
        """ns; where the call never returned, until its process ended."""
        return self.numbers("duration")

    @cached_property
    def end(self) -> Ints:
        """End, ns since the epoch; of a row of several calls, begin of the first plus the time in all."""
        return self.time + self.duration

    @cached_property
    def ended(self) -> Bools:
        """Calls that returned."""
        return self.truths("in_flight", negated=True)

    @cached_property
    def moved(self) -> Ints:
        """Bytes moved; 0 where none."""
        return self.numbers("bytes_moved")

    @cached_property
    def calls(self) -> Ints:
        """How many calls the row stands for, at least 1."""
        return self.numbers("calls")

    @cached_property
    def offset(self) -> Ints:
        """Bytes from the start of the file; -1: none, or not known."""
        return self.numbers("file_offset", -1)

    @cached_property
    def file(self) -> Ints:
        """Identity of the file; 0: none."""
        return self.numbers("file")
