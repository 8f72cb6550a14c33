"""Arrow tables as text, CSV, JSON or Parquet.

Batches are written one by one, so memory is bounded for tables of any length.
Columns are converted to text as a whole: there is no loop over rows.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from pyio_trace.errors import printable
from pyio_trace.join.base.arrow_arrays import of_texts

FORMATS = ("text", "csv", "json", "parquet")
_WIDEST = 100
#: Bytes of strings to expand at a time: in a small log, many rows can share one long string.
_AT_ONCE = 128 << 20
#: Integer columns in ns, which text shows in seconds.
_TIMES = frozenset({"time", "duration", "first", "last", "cpu", "delay"})
_LEAST = -(1 << 63) + 1  # the int64 below it has no absolute value
#: What a spreadsheet takes for the start of a formula.
_FORMULA = of_texts(["=", "+", "-", "@", "\t", "\r", "\n"])
#: Numbers may begin like formulas but are none.
_NUMBER = r"^[+-]?[0-9]+(\.[0-9]+)?$"
#: Texts that may need printable(), which decides.
_SUSPECT = r"[^ -~]|::|##"


def write_table(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, kind: str, out: BinaryIO, *, raw: bool = False
) -> int:
    """Writes batches, all of one schema, in one of FORMATS; returns the number of rows.

    json is an array of objects, one per line; csv has a heading line.  Unless
    raw, csv puts a ' before texts that a spreadsheet would run as formulas.
    """
    if kind == "parquet":
        return _parquet(batches, schema, out)
    parts = _in_parts(batches)
    if kind == "csv":
        return _csv(parts, schema, out, raw)
    return {"text": _text, "json": _json}[kind](parts, schema, out)


def _in_parts(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Splits batches so that the strings of a part, expanded for each row, take bounded memory."""
    known: dict[int, tuple[pa.Array, int]] = {}  # column -> its dictionary, bytes of its longest string
    for batch in batches:
        width = 1
        for number, column in enumerate(batch.columns):
            if not pa.types.is_dictionary(column.type) or not len(column.dictionary):
                continue
            if number not in known or not known[number][0].equals(column.dictionary):
                known[number] = column.dictionary, pc.max(pc.binary_length(column.dictionary)).as_py() or 0
            width += known[number][1]
        step = max(_AT_ONCE // width, 1)
        for first in range(0, batch.num_rows, step) if batch.num_rows > step else (0,):
            yield batch.slice(first, step)


def _parquet(batches: Iterable[pa.RecordBatch], schema: pa.Schema, out: BinaryIO) -> int:
    rows = 0
    with pyarrow.parquet.ParquetWriter(out, schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows


def _csv(batches: Iterable[pa.RecordBatch], schema: pa.Schema, out: BinaryIO, raw: bool) -> int:
    rows, terminal = 0, out.isatty()
    out.write((",".join(f'"{name}"' for name in schema.names) + "\n").encode())
    options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="needed")
    for batch in batches:
        if batch.num_rows:
            cells = [_csv_cells(_decoded(column), raw, terminal) for column in batch.columns]
            plain = pa.RecordBatch.from_arrays(cells, schema.names)
            buffer = io.BytesIO()
            pyarrow.csv.write_csv(plain, buffer, options)
            out.write(buffer.getbuffer())
            rows += batch.num_rows
    return rows


def _csv_cells(column: pa.Array, raw: bool, terminal: bool) -> pa.Array:
    """The column, with texts that neither a terminal nor a spreadsheet interprets."""
    if not pa.types.is_string(column.type):
        return column
    texts = printable_column(column) if terminal else column
    if raw:
        return texts
    formula = pc.is_in(pc.utf8_slice_codeunits(texts, 0, 1), value_set=_FORMULA)
    if not pc.any(formula).as_py():
        return texts
    formula = pc.and_not(formula, pc.match_substring_regex(texts, _NUMBER))
    return pc.if_else(formula, pc.binary_join_element_wise("'", texts, ""), texts)


def _json(batches: Iterable[pa.RecordBatch], schema: pa.Schema, out: BinaryIO) -> int:
    rows = 0
    out.write(b"[")
    for batch in batches:
        if not batch.num_rows:
            continue
        parts = [
            pc.binary_join_element_wise(f"{json.dumps(name)}: ", _json_values(column), "")
            for name, column in zip(schema.names, batch.columns, strict=True)
        ]
        lines = pc.binary_join_element_wise("{", pc.binary_join_element_wise(*parts, ", "), "}", "")
        out.write(b",\n" if rows else b"\n")
        _write_lines(lines, b",\n", out)
        rows += batch.num_rows
    out.write(b"\n]\n")
    return rows


def _json_values(column: pa.Array) -> pa.Array:
    """Each value as JSON text.  Each distinct string is quoted once."""
    if pa.types.is_integer(column.type) or pa.types.is_boolean(column.type) or pa.types.is_floating(column.type):
        return pc.fill_null(pc.cast(column, pa.string()), "null")
    coded = column
    if not pa.types.is_dictionary(column.type) or len(column.dictionary) > len(column):
        coded = pc.dictionary_encode(_decoded(column))  # only the strings that these rows have
    quoted = pa.array([json.dumps(text) for text in coded.dictionary.to_pylist()], pa.string())
    return pc.fill_null(quoted.take(coded.indices), "null")


def _text(batches: Iterable[pa.RecordBatch], schema: pa.Schema, out: BinaryIO) -> int:
    """Aligned columns.  The first batch sets the widths; later values may exceed them."""
    widths: list[int] | None = None
    rows = 0
    for batch in batches:
        texts = [_text_values(name, column) for name, column in zip(schema.names, batch.columns, strict=True)]
        if widths is None:
            widths = [
                min(max(len(name), pc.max(pc.utf8_length(text)).as_py() or 0), _WIDEST)
                for name, text in zip(schema.names, texts, strict=True)
            ]
            out.write(_heading(schema, widths))
        if batch.num_rows:
            padded = [_padded(text, field, width) for text, field, width in zip(texts, schema, widths, strict=True)]
            lines = pc.utf8_rtrim_whitespace(pc.binary_join_element_wise(*padded, "  "))
            _write_lines(lines, b"\n", out)
            out.write(b"\n")
            rows += batch.num_rows
    if widths is None:
        out.write(_heading(schema, [len(name) for name in schema.names]))
    return rows


def _heading(schema: pa.Schema, widths: list[int]) -> bytes:
    cells = [
        name.rjust(width) if _right(field) else name.ljust(width)
        for name, field, width in zip(schema.names, schema, widths, strict=True)
    ]
    return ("  ".join(cells).rstrip() + "\n").encode()


def _right(field: pa.Field) -> bool:
    return bool(pa.types.is_integer(field.type))


def _padded(text: pa.Array, field: pa.Field, width: int) -> pa.Array:
    return pc.utf8_lpad(text, width) if _right(field) else pc.utf8_rpad(text, width)


def _text_values(name: str, column: pa.Array) -> pa.Array:
    """Values for people: ns as decimal seconds, null as "-"."""
    if name in _TIMES and pa.types.is_integer(column.type):
        sign = pc.if_else(pc.less(column, 0), "-", "")
        size = pc.abs(pc.max_element_wise(column, _LEAST, skip_nulls=False))
        whole = pc.divide(size, 1_000_000_000)
        rest = pc.subtract(size, pc.multiply(whole, 1_000_000_000))
        text = pc.binary_join_element_wise(
            pc.binary_join_element_wise(sign, pc.cast(whole, pa.string()), ""),
            pc.utf8_lpad(pc.cast(rest, pa.string()), 9, "0"),
            ".",
        )
    elif pa.types.is_integer(column.type):
        text = pc.cast(column, pa.string())
    else:
        text = printable_column(pc.cast(_decoded(column), pa.string()))
    return pc.fill_null(text, "-")


def printable_column(texts: pa.Array) -> pa.Array:
    """Strings that stay on one line and have no effect on a terminal.  Each distinct one is converted once."""
    if not pc.any(pc.match_substring_regex(texts, _SUSPECT)).as_py():
        return texts
    coded = pc.dictionary_encode(texts)
    return pa.array([printable(text) for text in coded.dictionary.to_pylist()], pa.string()).take(coded.indices)


def _decoded(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _write_lines(lines: pa.Array, between: bytes, out: BinaryIO) -> None:
    """Writes the strings of an array, with `between` between them, at once: Arrow joins them, not Python."""
    whole = pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines)
    out.write(pc.binary_join(whole, between.decode())[0].as_buffer())
