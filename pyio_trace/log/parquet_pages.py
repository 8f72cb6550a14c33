"""Works out from the page headers what reading part of a Parquet file costs, before any page is unpacked.

A page of a few bytes can expand to 2 GiB, and Arrow allocates what the page
header says, whatever sizes the footer gives.  So the header of each page is
read first, and the sum is checked against the size of the file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from pyio_trace.errors import LogError
from pyio_trace.light_dataclass import dataclass
from pyio_trace.log import parquet_footer, thrift

if TYPE_CHECKING:
    import pyarrow.parquet as pq

#: Unpacked bytes, and rows or dictionary entries, allowed per byte of the file; and those allowed in any file.  Stacks
#: that differ in one line compress best, about 1 : 300; a row seldom takes less than a byte.
_UNPACKED, _COUNTED = 1024, 32
_UNPACKED_ANYWAY, _COUNTED_ANYWAY = 64 << 20, 1 << 20

#: Bytes that hold a header without statistics, and any header.
_USUAL, _LARGEST = 128, 1 << 16
_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3
#: Page kind -> field of its struct in PageHeader (parquet.thrift), field of the encoding in that struct.
_BODY = {_DATA: (5, 2), _DICTIONARY: (7, 2), _DATA_V2: (8, 4)}
#: PLAIN, PLAIN_DICTIONARY, RLE, BIT_PACKED, DELTA_BINARY_PACKED, RLE_DICTIONARY, BYTE_STREAM_SPLIT.  Not
#: DELTA_BYTE_ARRAY: its strings can be larger than their page.
_ENCODINGS = frozenset((0, 2, 3, 4, 5, 8, 9))
#: Those of data pages that refer to a dictionary.
_OF_DICTIONARY = frozenset((2, 8))
#: Types of the other fields of a PageHeader, which are those of its statistics.
_OF_STATISTICS = (thrift.TRUE, thrift.FALSE, thrift.BYTE, thrift.I16, thrift.I64, thrift.DOUBLE, thrift.BINARY)
_DEEPEST = 8

_Fields = dict[int, "int | _Fields"]


@dataclass
class Cost:
    """values: of the data pages; entries: of dictionaries; unpacked: bytes of all pages; dictionary: where the page of
    the dictionary begins and ends, if that is the first page and all others refer to it."""

    values: int = 0
    entries: int = 0
    unpacked: int = 0
    dictionary: tuple[int, int] | None = None


def cost(descriptor: int, start: int, end: int) -> Cost:
    """The cost of the pages between two offsets of a file.  Raises ValueError for anything but pages, OSError."""
    total = Cost()
    first = start
    while start < end:
        header, length = _header(descriptor, start, end)
        kind, unpacked, packed = (header.get(number) for number in (1, 2, 3))
        if kind not in _BODY or not isinstance(unpacked, int) or not isinstance(packed, int):
            raise ValueError("a page of an unknown kind")
        where, encoded = _BODY[kind]
        body = header.get(where)
        if not isinstance(body, dict) or unpacked < 0 or packed < 0:
            raise ValueError("a page without a size")
        count = body.get(1)
        if not isinstance(count, int) or count < 0 or body.get(encoded) not in _ENCODINGS:
            raise ValueError("a page in another encoding")
        if kind == _DICTIONARY:
            total.entries += count
            total.dictionary = (start, start + length + packed) if start == first else None
        else:
            total.values += count
            total.dictionary = total.dictionary if body[encoded] in _OF_DICTIONARY else None
        total.unpacked += unpacked
        start += length + packed
    if start != end:
        raise ValueError("a page that goes on beyond its column")
    return total


def _header(descriptor: int, start: int, end: int) -> tuple[_Fields, int]:
    """The PageHeader at an offset, and its length."""
    for size in (_USUAL, _LARGEST):
        data = os.pread(descriptor, min(size, end - start), start)
        try:
            return _struct(data, 0, {}, 0)
        except IndexError:  # the header is longer
            continue
    raise ValueError("a header that does not end")


# ---- limits -----------------------------------------------------------------------------------


def most_counted(size: int) -> int:
    """The most rows, or entries of one dictionary, for a file of this many bytes."""
    return _COUNTED_ANYWAY + _COUNTED * size


def least_bytes(rows: int) -> int:
    """The least size of a file with this many rows."""
    return -(-(rows - _COUNTED_ANYWAY) // _COUNTED)


def is_allowed(metadata: pq.FileMetaData, size: int) -> bool:
    """Whether a file of this many bytes, whose metadata is trusted, may be read whole."""
    groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
    unpacked: int = sum(group.column(at).total_uncompressed_size for group in groups for at in range(group.num_columns))
    return unpacked <= _UNPACKED_ANYWAY + _UNPACKED * size


class Allowance:
    """The budget for reading a file.  Raises OSError."""

    def __init__(self, path: Path, metadata: pq.FileMetaData) -> None:
        self._path = path
        self._metadata = metadata
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._size = os.fstat(self._descriptor).st_size
        self._left = _UNPACKED_ANYWAY + _UNPACKED * self._size
        self._charged: set[tuple[int, str]] = set()
        self._dictionaries: dict[tuple[int, str], tuple[int, int] | None] = {}
        columns = [metadata.schema.column(number) for number in range(len(metadata.schema))]
        self._leaves = {one.path: number for number, one in enumerate(columns) if not one.max_repetition_level}
        self._unchecked: list[parquet_footer.Leaf] | None = [
            parquet_footer.Leaf(one.max_repetition_level, one.max_definition_level, one.physical_type == "BYTE_ARRAY")
            for one in columns
        ]

    def __del__(self) -> None:
        if os is not None and hasattr(self, "_descriptor"):
            os.close(self._descriptor)

    def charge(self, group: int, names: Iterable[str]) -> None:
        """Charge columns of a row group, before they are read.  Raises LogError log-too-large, ValueError, OSError."""
        row_group = self._metadata.row_group(group)
        if not row_group.num_rows:  # nothing will be read
            return
        if self._unchecked is not None:
            parquet_footer.check(self._descriptor, self._unchecked)
            self._unchecked = None
        for name in names:
            if (group, name) in self._charged:
                continue
            if name not in self._leaves:
                raise ValueError("a column of columns")
            column = row_group.column(self._leaves[name])
            start, dictionary = column.data_page_offset, column.dictionary_page_offset
            if dictionary and start > dictionary:  # Arrow finds the first page this way
                start = dictionary
            total = cost(self._descriptor, start, start + column.total_compressed_size)
            if total.values > row_group.num_rows:
                raise ValueError("more values than rows")
            self._left -= total.unpacked
            if self._left < 0 or total.entries > most_counted(self._size):
                raise too_large(self._path)
            self._charged.add((group, name))
            self._dictionaries[group, name] = total.dictionary

    def one_dictionary(self, name: str) -> int | None:
        """A row group whose dictionary of a column is that of all row groups, byte by byte; None: there is none.

        Raises what charge() raises.
        """
        first, text = None, b""
        for group in range(self._metadata.num_row_groups):
            if not self._metadata.row_group(group).num_rows:
                continue
            self.charge(group, [name])
            place = self._dictionaries[group, name]
            if place is None:
                return None
            own = os.pread(self._descriptor, place[1] - place[0], place[0])
            if first is None:
                first, text = group, own
            elif own != text:
                return None
        return first


def too_large(path: Path) -> LogError:
    return LogError("log-too-large", f"{path}: unpacks to more than a log of its size can; it is damaged or forged")


def _struct(data: bytes, at: int, fields: _Fields, depth: int) -> tuple[_Fields, int]:
    """Reads the 32-bit integers and structs of the struct at `at` into fields, and returns where it ends.

    As in Thrift, a repeated integer field replaces the earlier one, and a repeated struct is merged into it.
    Raises IndexError where the data ends.
    """
    if depth > _DEEPEST:
        raise ValueError("structs too deep")
    number = 0
    while True:
        kind, number, at = thrift.field(data, at, number)
        if kind == thrift.STOP:
            return fields, at
        if kind == thrift.I32:
            value, at = thrift.integer(data, at)
            if not -(1 << 31) <= value < 1 << 31:
                raise ValueError("a number of more than 32 bits")
            fields[number] = value
        elif kind == thrift.STRUCT:
            before = fields.get(number)
            inner: _Fields = before if isinstance(before, dict) else {}
            fields[number], at = _struct(data, at, inner, depth + 1)
        elif kind in _OF_STATISTICS:
            at = thrift.value_end(data, at, kind)
        else:
            raise ValueError("a list where there is none")
