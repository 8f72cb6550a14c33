"""busy-disk, the table `system` and its view, on logs made by hand: live, packed, merged, obfuscated, damaged."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from pyio_trace.analysis.reducers.system import SystemOfRun
from pyio_trace.errors import LogError
from pyio_trace.insights.finding import Finding
from pyio_trace.join.base import system
from pyio_trace.join.pack.packer import pack
from pyio_trace.join.sources.facade import Log
from pyio_trace.join.sources.opening import open_log
from pyio_trace.log import layout
from pyio_trace.views import scan
from tests.support.logwriter import LogWriter
from tests.support.ranks import findings_in

pytestmark = pytest.mark.once

MS, MIB = 1_000_000, 1 << 20
DISK = 0xFE00


def seen_log(
    path: Path, theirs: int = 100 * MIB, busy: int = 90, device: int = DISK, pid: int = 999, host: str = "node1",
    run: int = 1, own: int = MIB, calls_ms: int = 80,
) -> Path:  # fmt: skip
    """A run of a second that writes a file, ten calls of so many ms each; looks each 100 ms.

    theirs, own: bytes that another process, and the run, write in each; busy: ms of the disk in each.
    """
    writer = LogWriter(host=host, mono=0, ticks=0)
    writer.header["run_id"], writer.header["system_period"] = run, 100 * MS
    process = writer.process(100, argv=["python", "/w/job.py"], version="3.11.7", begin=0, end=1000 * MS,
                             end_kind=layout.END_EXIT)  # fmt: skip
    thread = writer.thread(process, 100)
    desc = writer.desc(3, "/d/out.bin", kind=1, dev=DISK, ino=7)
    stack = writer.stack((writer.code("/w/job.py", "main"), 10))
    for look in range(10):
        begin = 100 * look * MS + 1
        thread.record("PWRITE", begin=begin, duration=calls_ms * MS, desc=desc, aux=3, offset=look * own, size=own,
                      result=own, stack=stack)  # fmt: skip
        writer.system("other", begin=begin, ticks=100 * MS, name="backup", pid=pid, read_bytes=0, written_bytes=theirs)
        writer.system("own", begin=begin, ticks=100 * MS, read_bytes=0, written_bytes=own)
        writer.system("disk", begin=begin, ticks=100 * MS, name="sda", device=device, read_bytes=0, reads=0,
                      read_time=0, written_bytes=theirs + own, writes=50, write_time=500 * MS,
                      busy=busy * MS)  # fmt: skip
        writer.system("network", begin=begin, ticks=100 * MS, name="eth0", read_bytes=10, written_bytes=20, reads=1,
                      writes=2, lost=0)  # fmt: skip
        writer.system("machine", begin=begin, ticks=100 * MS, cpu_busy=50 * MS, cpu_wait=MS, cores=2, io_stall=7 * MS,
                      available=MIB + look, cached=look, dirty=100 - look, cost=1000, unread=3)  # fmt: skip
    return writer.save(path)


def found(path: Path) -> list[Finding]:
    return findings_in(path, "busy-disk")


def test_the_neighbour_is_named(tmp_path: Path) -> None:
    (finding,) = found(seen_log(tmp_path / "a.pyio"))
    assert finding.title == "sda was busy with another process: backup (pid 999)"
    values = finding.evidence[0].values
    assert (values["others_bytes"], values["bytes"]) == (1000 * MIB, 1010 * MIB)
    # its I/O, times the others' share of the bytes
    assert abs(finding.recoverable_ns - 800 * MS * 100 // 101) < 8 * MS


@pytest.mark.parametrize(
    "unlike",
    [
        {"theirs": 0}, {"theirs": MIB // 2},  # nobody, or little beside the run's own
        {"busy": 2},  # the disk is idle
        {"pid": 100},  # it is the run's own process
        {"calls_ms": 0},  # the program does no I/O meanwhile
        {"theirs": MIB, "own": 8 * MIB},  # most of the traffic is the program's
    ],
    ids=str,
)  # fmt: skip
def test_silent(tmp_path: Path, unlike: dict[str, int]) -> None:
    assert found(seen_log(tmp_path / "a.pyio", **unlike)) == []  # type: ignore[arg-type]


def test_of_another_disk_only_where_ours_is_not_known(tmp_path: Path) -> None:
    (finding,) = found(seen_log(tmp_path / "a.pyio", device=DISK + 1))
    assert "neither the disk" in str(finding.confidence)


# ---- the table and the view


def the_view(log: Log) -> tuple[list[tuple[object, ...]], list[tuple[object, ...]]]:
    (view,) = scan(log, [SystemOfRun()])
    rows = [(row.kind, row.name, row.pid, row.read_bytes, row.written_bytes, row.wait_ns) for row in view.rows]
    machines = [(one.looks, one.io_stall_ns, one.cpu_stall_ns, one.available_bytes, one.dirty_bytes, one.cached_bytes,
                 one.unread, one.cpu_share) for one in view.machines]  # fmt: skip
    return rows, machines


EXPECTED = (
    [
        ("disk", "sda", None, 0, 1010 * MIB, 10 * MS),
        ("network", "eth0", None, 100, 200, None),
        ("other", "backup", 999, 0, 1000 * MIB, None),
        ("own", "", None, 0, 10 * MIB, None),
    ],
    [(10, 70 * MS, None, MIB, 100, 9, 3, 0.25)],
)


def test_live_and_packed(tmp_path: Path) -> None:
    live = seen_log(tmp_path / "a.pyio")
    pack(live, tmp_path / "a.parquet")
    for log in (open_log(live), open_log(tmp_path / "a.parquet")):
        assert the_view(log) == EXPECTED
    first, second = (open_log(tmp_path / name).system() for name in ("a.pyio", "a.parquet"))
    assert first.equals(second)
    assert first.num_rows == 50 and set(first["host"].to_pylist()) == {"node1"}
    assert first.filter(first["kind"].to_numpy() == "network")["busy"].null_count == 10  # type: ignore[arg-type]


def test_of_several_hosts(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    for run, host in ((1, "node1"), (2, "node2")):
        seen_log(folder / f"{host}.pyio", host=host, run=run, theirs=100 * MIB if run == 2 else 0)
    (view,) = scan(open_log(folder), [SystemOfRun()])
    assert [one.host for one in view.machines] == ["node1", "node2"]
    # each host's disk is busy with that host's processes
    (finding,) = found(folder)
    assert finding.processes == [1]


def encoded_log(path: Path) -> system.System:
    return open_log(seen_log(path)).seen_of_system()


def test_a_text_that_is_none(tmp_path: Path) -> None:
    text = system.encoded(encoded_log(tmp_path / "a.pyio"))
    assert system.decoded(text).table().equals(encoded_log(tmp_path / "b.pyio").table())
    _, rows, size, packed = text.split(" ")
    raw = base64.b64decode(packed)
    bad = ["", "x", "1 2 3", f"2 {rows} {size} {packed}", f"1 0 {size} {packed}", f"1 {1 << 21} {size} {packed}",
           f"1 {rows} 999999999 {packed}", f"1 {int(rows) + 1} {size} {packed}", f"1 {rows} {size} !",
           f"1 {rows} {size} {base64.b64encode(raw[:40]).decode()}", f"1 -{rows} {size} {packed}"]  # fmt: skip
    for one in bad:
        with pytest.raises(ValueError, match=r"."):
            system.decoded(one)


@pytest.mark.parametrize(
    ("field", "value"),
    [("kind", 99), ("ticks", (1 << 64) - 1), ("device", (1 << 64) - 1), ("values", (1 << 64) - 2),
     ("begin", (1 << 64) - 1), ("name", b"\xff" * 32)],
)  # fmt: skip
def test_forged_rows(tmp_path: Path, field: str, value: object) -> None:
    # GIVEN a log in which one row claims what cannot be
    path = seen_log(tmp_path / "a.pyio")
    log = open_log(path)
    at = int(log._source._log.chunks.of_kind(layout.CHUNK_SYSTEM)[0]["offset"][0]) + layout.HEAP_START  # type: ignore[attr-defined]
    import numpy as np

    raw = bytearray(path.read_bytes())
    row = np.frombuffer(raw, layout.SYSTEM, 1, at)
    row[field] = value
    path.write_bytes(raw)
    # THEN it is read, every command's sums included, and the other rows are there
    (view,) = scan(open_log(path), [SystemOfRun()])
    assert sum(one.looks for one in view.machines) == 10
    found(path)


def test_a_damaged_packed_log_is_refused(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    pack(seen_log(tmp_path / "a.pyio"), tmp_path / "a.parquet")
    table = pq.read_table(tmp_path / "a.parquet")
    metadata = dict(table.schema.metadata or {})
    file = pq.ParquetFile(tmp_path / "a.parquet")
    metadata |= {key: value for key, value in (file.metadata.metadata or {}).items() if key != b"ARROW:schema"}
    (name,) = [key for key in metadata if key.endswith(b"system")]
    metadata[name] = b"1 2 3 ?"
    pq.write_table(table.replace_schema_metadata(metadata), tmp_path / "bad.parquet")
    with pytest.raises(LogError):
        open_log(tmp_path / "bad.parquet").system()
