"""Arrow tables as text, CSV, JSON or Parquet.

Rows are written batch by batch, so a table of any length passes through in
bounded memory, and whole columns become text at a time: no loop over rows.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from pyio_trace.errors import printable

FORMATS = ("text", "csv", "json", "parquet")
_WIDEST = 100
#: Columns of integers that people want to read in other units, by what they are.
_TIMES = frozenset({"time", "duration", "first", "last"})
_LEAST = -(1 << 63) + 1  # the int64 below has no absolute value
#: Rows that printable() has to look at; RE2 writes characters otherwise than Python, and has no surrogates.
_SUSPECT = r"[\x00-\x1f\x7f-\x{9f}\x{200e}-\x{2069}]"


def write_table(batches: Iterable[pa.RecordBatch], schema: pa.Schema, kind: str, out: BinaryIO) -> int:
    """Write batches, all of one schema, as one of FORMATS; returns the number of rows.

    json is one array of objects, one to a line; csv has a heading line.
    """
    writer = {"text": _text, "csv": _csv, "json": _json, "parquet": _parquet}[kind]
    return writer(batches, schema, out)


def _parquet(batches: Iterable[pa.RecordBatch], schema: pa.Schema, out: BinaryIO) -> int:
    rows = 0
    with pyarrow.parquet.ParquetWriter(out, schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows


def _csv(batches: Iterable[pa.RecordBatch], schema: pa.Schema, out: BinaryIO) -> int:
    rows = 0
    out.write((",".join(f'"{name}"' for name in schema.names) + "\n").encode())
    options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="needed")
    for batch in batches:
        if batch.num_rows:
            plain = pa.RecordBatch.from_arrays([_decoded(column) for column in batch.columns], schema.names)
            buffer = io.BytesIO()
            pyarrow.csv.write_csv(plain, buffer, options)
            out.write(buffer.getbuffer())
            rows += batch.num_rows
    return rows


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
    """Each value as JSON text; strings are quoted once for each distinct one."""
    if pa.types.is_integer(column.type) or pa.types.is_boolean(column.type):
        return pc.fill_null(pc.cast(column, pa.string()), "null")
    coded = column if pa.types.is_dictionary(column.type) else pc.dictionary_encode(column)
    quoted = pa.array([json.dumps(text) for text in coded.dictionary.to_pylist()], pa.string())
    return pc.fill_null(quoted.take(coded.indices), "null")


def _text(batches: Iterable[pa.RecordBatch], schema: pa.Schema, out: BinaryIO) -> int:
    """Aligned columns; widths are those of the first batch, later ones may stand out."""
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
    """Values as people read them: ns as seconds with a point, null as "-"."""
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
    """Strings so that each stays one line and does nothing to a terminal; distinct ones are looked at once."""
    if not pc.any(pc.match_substring_regex(texts, _SUSPECT)).as_py():
        return texts
    coded = pc.dictionary_encode(texts)
    return pa.array([printable(text) for text in coded.dictionary.to_pylist()], pa.string()).take(coded.indices)


def _decoded(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _write_lines(lines: pa.Array, between: bytes, out: BinaryIO) -> None:
    """The strings of an array with `between` in between, as one write: joined inside Arrow, not here."""
    whole = pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines)
    out.write(pc.binary_join(whole, between.decode())[0].as_buffer())
