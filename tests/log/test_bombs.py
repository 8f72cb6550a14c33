"""Parquet files of a few KB that claim or unpack to gigabytes: the cost of reading is bounded by their size."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pyio_trace
from pyio_trace.errors import LogError
from pyio_trace.join.pack import packer as pack_module
from pyio_trace.join.pack.packer import pack
from pyio_trace.log import parquet_pages as pages
from tests.fuzz import seeds
from tests.support.logwriter import LogWriter

pytestmark = pytest.mark.once  # reading logs is the same on every Python

ROOT = Path(__file__).parents[2]
#: In a process of its own that may have 3 GiB of addresses: what is not bounded fails there, and not the machine.
_BOUNDED = """
import re, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
from pyio_trace.cli.main import main
status = main(sys.argv[2:])
with open("/proc/self/status") as told, open(sys.argv[1], "w") as peak:
    peak.write(re.search(r"VmHWM:\\s+(\\d+)", told.read())[1])
sys.exit(status)
"""
COMMANDS = [["--format", "csv"], ["--format", "json"], ["--sort", "path", "--limit", "1"]]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> pa.Table:
    """A sound log's rows, all alike, and its description."""
    folder = tmp_path_factory.mktemp("bombs")
    (folder / "live").write_bytes(seeds.rich())
    pack(folder / "live", folder / "packed")
    table: pa.Table = pq.read_table(folder / "packed")
    return table.slice(0, 1)


def alike(row: pa.Table, rows: int) -> pa.Table:
    return row.take(pa.nulls(rows, pa.int32()).fill_null(0)).combine_chunks()


def with_strings(row: pa.Table, column: str, strings: list[str], rows: int) -> pa.Table:
    table, at = alike(row, rows), row.schema.names.index(column)
    values = pa.DictionaryArray.from_arrays(pa.nulls(rows, pa.int32()).fill_null(0), pa.array(strings))
    return table.set_column(at, table.schema.field(column), values)


def written(table: pa.Table, path: Path, **more: object) -> Path:
    given = {"compression": "zstd", "dictionary_pagesize_limit": (1 << 31) - 1, **more}
    pq.write_table(table, path, write_statistics=False, **given)
    return path


def many_rows(row: pa.Table, path: Path) -> Path:
    return written(alike(row, 1 << 21), path, row_group_size=1 << 21)


def a_large_string(row: pa.Table, path: Path) -> Path:
    return written(with_strings(row, "path", ["x" * (200 << 20)], 1000), path)


def large_strings(row: pa.Table, path: Path) -> Path:
    return written(with_strings(row, "call_stack", [str(n) + "x" * (1 << 22) for n in range(40)], 1000), path)


def a_string_beyond_all(row: pa.Table, path: Path) -> Path:
    return written(with_strings(row, "detail", ["x" * (20 << 20)], 1000), path)


def strings_by_what_they_share(row: pa.Table, path: Path) -> Path:
    table = alike(row, 200)
    plain = table.set_column(table.schema.names.index("path"), "path", pa.array(["x" * (1 << 16)] * 200))
    return written(plain, path, use_dictionary=False, column_encoding={"path": "DELTA_BYTE_ARRAY"})


BOMBS: dict[str, tuple[Callable[[pa.Table, Path], Path], str]] = {
    "rows": (many_rows, "log-damaged"),
    "a string": (a_large_string, "log-too-large"),
    "strings": (large_strings, "log-too-large"),
    "a long string": (a_string_beyond_all, "log-too-large"),
    "shared": (strings_by_what_they_share, "log-damaged"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_costs_little_and_one_line(name: str, sound: pa.Table, tmp_path: Path) -> None:
    # GIVEN a file of less than a MB WHEN it is read THEN that is refused in a line, and has taken less than 1 GiB
    make, slug = BOMBS[name]
    path = make(sound, tmp_path / "log.parquet")
    assert path.stat().st_size < 1 << 20
    status, out, err, peak = bounded(tmp_path, "events", str(path), "--format", "csv")
    assert status == 2 and out.count(b"\n") <= 1, err  # a heading
    assert err.count(b"\n") == 1 and err.endswith(f"[{slug}]\n".encode())
    assert peak < 1 << 30


@pytest.mark.slow
def test_one_string_in_every_row(sound: pa.Table, tmp_path: Path) -> None:
    # GIVEN a log in which 1,000 rows share a path of 1 MiB: a GiB when written out, which is never in memory at once
    path = written(with_strings(sound, "path", ["x" * (1 << 20)], 1_000), tmp_path / "log.parquet")
    for words in COMMANDS:
        # WHEN its operations are written in any way THEN that works
        status, _, err, peak = bounded(tmp_path, "events", str(path), *words)
        assert (status, err) == (0, b""), words
        assert peak < 1 << 30, words


def bounded(folder: Path, *words: str) -> tuple[int, bytes, bytes, int]:
    """One command: its status, the start of its output, its errors, and the most memory it had."""
    with subprocess.Popen(
        [sys.executable, "-c", _BOUNDED, str(folder / "peak"), *words],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as running:  # fmt: skip
        assert running.stdout is not None and running.stderr is not None
        start = running.stdout.read(1 << 16)
        while running.stdout.read(1 << 20):
            pass
        err = running.stderr.read()
    return running.returncode, start, err, int((folder / "peak").read_text()) * 1024


# ---- what is no bomb --------------------------------------------------------------------------


def test_a_regular_log_is_no_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN a log whose rows are so regular that a reader allows fewer in that many bytes
    monkeypatch.setattr(pages, "_COUNTED_ANYWAY", 0)
    monkeypatch.setattr(pages, "_COUNTED", 1)
    writer = LogWriter()
    thread = writer.thread(writer.process(100), 100, chunk_size=4 << 20)
    name, rows = writer.string("/x"), 50_000
    for step in range(rows):
        thread.record("STAT", begin=2_000 + 10 * step, desc=name)
    live, packed = writer.save(tmp_path / "live"), tmp_path / "packed"
    # WHEN it is packed THEN it can be read
    pack(live, packed)
    assert pyio_trace.open(packed).rows() == rows
    # AND without what pack has added it could not
    monkeypatch.setattr(pack_module, "least_bytes", lambda rows: 0)
    pack(live, packed)
    assert packed.stat().st_size < rows
    with pytest.raises(LogError) as caught:
        pyio_trace.open(packed)
    assert caught.value.slug == "log-too-large"


def test_pages_are_told_as_arrow_reads_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN columns of several kinds and many pages WHEN their headers are read THEN values and sizes are the footer's
    rows = 50_000
    table = pa.table({
        "a": pa.array(range(rows)), "b": pa.array([str(n) for n in range(rows)]),
        "c": pa.array([str(n % 7) for n in range(rows)]), "d": pa.array([None, True] * (rows // 2)),
    })  # fmt: skip
    path = tmp_path / "table.parquet"
    for version in ("1.0", "2.0"):
        pq.write_table(table, path, data_page_version=version, data_page_size=4096, row_group_size=20_000)
        metadata = pq.read_metadata(path)
        allowance = pages.Allowance(path, metadata)
        left = allowance._left
        for group in range(metadata.num_row_groups):
            allowance.charge(group, table.schema.names)
            allowance.charge(group, table.schema.names)
        chunks = [metadata.row_group(g).column(c) for g in range(metadata.num_row_groups) for c in range(4)]
        # the footer counts the pages' headers too
        headers = sum(one.total_uncompressed_size for one in chunks) - (left - allowance._left)
        assert 0 < headers < 200 * 1024
    # AND a dictionary of more entries than the file may have is refused
    monkeypatch.setattr(pages, "_COUNTED", 0)
    monkeypatch.setattr(pages, "_COUNTED_ANYWAY", 10_000)
    with pytest.raises(LogError):
        pages.Allowance(path, metadata).charge(0, ["b"])
    pages.Allowance(path, metadata).charge(0, ["c"])


@pytest.mark.parametrize("raw", [b"", b"\x15", b"\x15\x00\x15\x02\x15\x02\x00", b"\xff" * 40, b"\x1c" * 40,
                                 b"\x15\x00\x15\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"])  # fmt: skip
def test_what_is_no_page(raw: bytes, tmp_path: Path) -> None:
    (tmp_path / "pages").write_bytes(raw)
    descriptor = os.open(tmp_path / "pages", os.O_RDONLY)
    try:
        with pytest.raises(ValueError):
            pages.cost(descriptor, 0, 1000)
    finally:
        os.close(descriptor)
