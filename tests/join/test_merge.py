"""The logs of a job as one: files that ranks share, clocks of hosts, many logs."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pyio_trace.analysis.reducer import scan
from pyio_trace.analysis.reducers.shared_files import FilesOfSeveral
from pyio_trace.analysis.tables.sums_tables import by_file
from pyio_trace.cli.main import main
from pyio_trace.errors import LogError
from pyio_trace.join.base import identities
from pyio_trace.join.pack import packer
from pyio_trace.join.sources import merged_source
from pyio_trace.join.sources.host_clocks import Moment, aligned
from pyio_trace.join.sources.live_source import LiveSource
from pyio_trace.join.sources.merged_source import MergedSource
from pyio_trace.join.sources.opening import open_job, open_log
from pyio_trace.log import layout
from pyio_trace.log.parquet_log import KEY
from tests.support.logwriter import LogWriter

REAL = 1_700_000_000_000_000_000
INPUT, OWN, STATED = "/lustre/in.h5", "/tmp/out.dat", "/etc/conf"


def rank_log(folder: Path, rank: int, host: str, *, clock: int = 0, init: int | None = None, stats: bool = False,
             job: str = "4711", run: str = "", begin: int = 2_000, **more: Any) -> Path:  # fmt: skip
    """The log of a rank that reads its part of a shared file, writes one of its own, and touches one of its host.

    clock: ns that the host's clock is ahead; init: ns, when MPI_Init ended; stats: the host's file only by its path.
    """
    writer = LogWriter(host=host, boot_id=f"boot of {host}", real=REAL + clock, ticks=1_000, mono=1_000)
    writer.header["run_id"] = 100 + rank
    process = writer.process(
        1000 + rank, argv=["python", "solve.py"], version="3.11.7", begin=begin, end=begin + 50_000,
        end_kind=layout.END_EXIT, global_rank=rank + 1, world_size=4, job=writer.string(job) if job else 0,
        init_begun=init - 500 if init is not None else 0, init_ended=init or 0,
        job_run=writer.string(run) if run else 0,
    )  # fmt: skip
    thread = writer.thread(process, 1000 + rank)
    device = {"node0": 70, "node1": 90}.get(host, 50)
    shared = writer.desc(3, INPUT, dev=device, ino=7)
    own = writer.desc(4, OWN, dev=64, ino=500 + rank)
    conf = writer.string(STATED) if stats else writer.desc(5, STATED, dev=64, ino=9)
    at = begin + 100
    thread.record("PREAD", begin=at, desc=shared, offset=4096 * rank, size=4096, result=4096)
    thread.record("PWRITE", begin=at + 100, desc=own, offset=0, size=100, result=100)
    thread.record("STAT" if stats else "FSTAT", begin=at + 200, desc=conf, **more)
    writer.save(folder / "live.pyio")
    path = folder / f"rank-{rank}.parquet"
    packer.pack(folder / "live.pyio", path)
    (folder / "live.pyio").unlink()
    return path


def mounted(path: Path, mounts: dict[str, str]) -> None:
    """Says which file systems the host of a packed log had."""
    import json

    table = pq.ParquetFile(path)
    metadata = dict(table.metadata.metadata)
    description = json.loads(metadata[KEY])
    description["info"]["file_systems"] = mounts
    metadata[KEY] = json.dumps(description).encode()
    rows = table.read().replace_schema_metadata(metadata)
    pq.write_table(rows, path, row_group_size=1 << 20)


def four_ranks(folder: Path, clock: int = 0, init: tuple[int, ...] | None = None) -> Path:
    """Two ranks on each of two hosts, in folders below."""
    for rank in range(4):
        below = folder / f"node{rank // 2}"
        below.mkdir(parents=True, exist_ok=True)
        path = rank_log(
            below, rank, f"node{rank // 2}", clock=clock * (rank // 2), stats=rank == 1,
            init=None if init is None else init[rank],
        )  # fmt: skip
        mounted(path, {"": "ext4", "/lustre": "lustre", "/tmp": "tmpfs"})
    return folder


def files_of(log: Any) -> dict[str, list[int]]:
    """Path -> the processes that touched each file of that name."""
    found: dict[str, list[int]] = {}
    for row in by_file(log).to_pylist():
        found.setdefault(row["path"], []).append(row["processes"])
    return {path: sorted(counts) for path, counts in found.items()}


#: The shared file is one for all, the ranks' own are four, the hosts' files are one for each host.
EXPECTED = {INPUT: [4], OWN: [1, 1, 1, 1], STATED: [2, 2]}


def test_files_of_a_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # GIVEN four ranks on two hosts WHEN their logs are merged
    four_ranks(tmp_path / "logs")
    output = tmp_path / "job.parquet"
    assert main(["merge", str(tmp_path / "logs"), "-o", str(output)]) == 0
    # THEN each file is one file
    merged = open_log(output)
    assert files_of(merged) == EXPECTED
    # AND what is inferred, or not known, is said
    said = capsys.readouterr().out
    assert "4 logs of 2 hosts, 12 operations" in said and "by path (inferred)" in said and "not known" in said
    info = merged.info()
    assert (info["clock_error"], info["files_by_path"], len(info["logs"])) == (None, 2, 4)
    # AND the shared file is seen to be shared
    (shared,) = scan(merged, [FilesOfSeveral()])
    assert [(row.path, row.processes, row.common_bytes) for row in shared.rows] == [(INPUT, 4, 0)]
    assert [row["global_rank"] for row in merged.processes().to_pylist()] == [0, 1, 2, 3]
    # AND a summary can be made of it
    assert main(["summary", str(output)]) == 0
    assert "Job 4711 on 2 nodes (node0 to node1)." in capsys.readouterr().out


def test_a_folder_is_read_alike(tmp_path: Path) -> None:
    # GIVEN the logs of the ranks in one folder THEN commands unify their files, too
    for path in [*four_ranks(tmp_path / "logs").rglob("*.parquet")]:
        path.rename(tmp_path / path.name)
    log = open_log(tmp_path)
    assert files_of(log) == EXPECTED
    # AND batches of single divisions have the same numbers as the whole
    whole = log.operations(["file", "to_file"])
    parts = [batch for at in range(4) for batch in log.batches(["file", "to_file"], within=(at, at + 1))]
    assert whole["file"].to_pylist() == [number for part in parts for number in part.column("file").to_pylist()]


def test_runs_after_one_another_share_nothing(tmp_path: Path) -> None:
    # GIVEN two runs of one host, the second after the first, and of no job
    for number in range(2):
        rank_log(tmp_path, number, "node0", clock=number * 1_000_000_000, job="")
    # THEN their files are different ones, unless a user says that it is one job
    assert files_of(open_log(tmp_path)) == {INPUT: [1, 1], OWN: [1, 1], STATED: [1, 1]}
    assert main(["merge", str(tmp_path), "-o", str(tmp_path / "job.parquet")]) == 0
    assert files_of(open_log(tmp_path / "job.parquet")) == {INPUT: [2], OWN: [1, 1], STATED: [2]}


def test_several_runs_in_one_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # GIVEN a batch job that has launched two runs of two ranks after one another, and a log of no job
    logs, output = tmp_path / "logs", tmp_path / "job.parquet"
    logs.mkdir()
    for rank in range(4):
        rank_log(logs, rank, f"node{rank % 2}", run=f"n17:400{rank // 2}", begin=2_000 + rank // 2 * 10_000_000)
    rank_log(logs, 4, "node0", job="", begin=50_000_000)
    # WHEN all are merged THEN that is said, and their files stay apart
    assert main(["merge", str(logs), "-o", str(output)]) == 0
    said = capsys.readouterr().out
    assert "Logs of 2 runs: n17:4000 (2 logs), n17:4001 (2 logs). --job ID merges one.\n1 log of no job." in said
    assert files_of(open_log(output))[OWN] == [1] * 5 and len(files_of(open_log(output))[INPUT]) > 1
    # AND one of them can be had, by its id or by the batch system's
    for job, ranks in (("n17:4001", [2, 3]), ("4711", [0, 1, 2, 3])):
        assert main(["merge", str(logs), "--job", job, "-o", str(output)]) == 0
        assert [row["pid"] - 1000 for row in open_log(output).processes().to_pylist()] == ranks
    capsys.readouterr()
    # AND another one is none
    assert main(["merge", str(logs), "--job", "0815", "-o", str(tmp_path / "none.parquet")]) == 2
    assert capsys.readouterr().err.count("\n") == 1 and not (tmp_path / "none.parquet").exists()


def test_ids_come_back(tmp_path: Path) -> None:
    # GIVEN runs with one id, the second a day and a second after the first, the third within hours of the second
    day = 86_400_000_000_000
    for rank, clock in enumerate((0, 0, day + 1_000_000_000, day + 3 * day // 24)):
        rank_log(tmp_path, rank, "node0", clock=clock, job="", run="n17:4000")
    # THEN they are two runs
    merged = open_job([tmp_path])
    assert merged.runs == ["n17:4000", "n17:4000", "n17:4000#2", "n17:4000#2"]
    assert open_job([tmp_path], "n17:4000#2").rows() == 6


def test_clocks_of_the_run_that_was_everywhere(tmp_path: Path) -> None:
    # GIVEN hosts whose clocks differ by 5 s, a run on both of them, and an earlier one on each alone
    ahead = 5_000_000_000
    for rank, (host, run) in enumerate([(0, "a"), (1, "b"), (0, "c"), (1, "c")]):
        late = 1_000_000 * (run == "c")
        rank_log(tmp_path, rank, f"node{host}", clock=ahead * host, run=run, init=1_500 + late, begin=1_200 + late)
    # THEN the common one tells how far
    info = open_job([tmp_path]).info()
    assert info["clock_error"] == 500
    assert info["end"] - info["start"] < ahead


def test_clocks_of_hosts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # GIVEN ranks that left MPI_Init within 300 ns, and a host whose clock is 5 s ahead
    ahead = 5_000_000_000
    four_ranks(tmp_path / "logs", clock=ahead, init=(1_500, 1_600, 1_700, 1_800))
    assert main(["merge", str(tmp_path / "logs"), "-o", str(tmp_path / "job.parquet")]) == 0
    merged = open_log(tmp_path / "job.parquet")
    # THEN its times are moved back, to within the error that is said
    error = merged.info()["clock_error"]
    assert 200 <= error <= 1_000 and "MPI_Init" in capsys.readouterr().out
    reads = merged.operations(["op", "time"]).to_pylist()
    times = [row["time"] for row in reads if row["op"] == "pread"]
    assert len(times) == 4 and max(times) - min(times) <= error
    begins = [row["begin"] for row in merged.processes().to_pylist()]
    assert max(begins) - min(begins) <= error
    assert merged.info()["end"] - merged.info()["start"] < ahead


def test_clocks_without_a_shared_moment(tmp_path: Path) -> None:
    # GIVEN one rank of four without an MPI_Init THEN no clock is moved
    folder = four_ranks(tmp_path / "logs", clock=5_000_000_000, init=(1_500, 1_600, 1_700, 1_800))
    rank_log(folder, 4, "node2")
    source = open_job([folder])
    assert source.info()["clock_error"] is None
    assert source.info()["start"] == REAL


@pytest.mark.parametrize(
    ("moments", "offsets", "error"),
    [
        # the offset of host b is between -60 (it left before a had entered) and 80 (a left before it had entered)
        ([("a", 0, 100), ("b", 20, 60)], [0, 40], 100),
        # ranks that left before others had entered: it was no synchronisation, or another program's
        ([("a", 0, 100), ("a", 500, 600), ("b", 0, 100)], [0, 0, 0], None),
        # a forged log
        ([("a", 0, 100), ("b", -(1 << 62), -(1 << 62))], [0, 0], None),
        # errors of two hosts that are aligned to a third add up
        ([("a", 0, 100), ("b", 90, 100), ("c", 95, 100)], [0, 0, 0], 200),
    ],
)
def test_alignment(moments: list[tuple[str, int, int]], offsets: list[int], error: int | None) -> None:
    hosts = [host for host, _, _ in moments]
    found = aligned(hosts, [Moment(begin, end) for _, begin, end in moments])
    assert (found.offsets, found.error) == (offsets, error)


@pytest.mark.parametrize("most", [0, 2, 64])
def test_few_logs_are_open_at_once(most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN a limit of open logs WHEN more are merged
    monkeypatch.setattr(merged_source, "MOST_OPEN", most)
    monkeypatch.setattr("pyio_trace.join.sources.opening.MOST_OPEN", most)
    four_ranks(tmp_path / "logs")
    before = len(os.listdir("/proc/self/fd"))
    source = open_job([tmp_path / "logs"])
    if most == 0:
        assert len(os.listdir("/proc/self/fd")) == before
    packer.pack_source(source, "job", tmp_path / "job.parquet")
    # THEN the result is the same
    assert files_of(open_log(tmp_path / "job.parquet")) == EXPECTED


def test_closed_logs_leave_no_metadata(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN 40 logs of which 4 may be open, and a Python that looks for garbage as seldom as a command's
    monkeypatch.setattr(merged_source, "MOST_OPEN", 4)
    monkeypatch.setattr("pyio_trace.join.sources.opening.MOST_OPEN", 4)
    monkeypatch.setattr("pyio_trace.join.sources.parquet_source._COLLECT_EVERY", 8)
    (tmp_path / "logs").mkdir()
    for rank in range(40):
        rank_log(tmp_path / "logs", rank, f"node{rank // 8}")
    before, most = gc.get_threshold(), 0
    gc.collect()
    gc.set_threshold(1 << 30)
    try:
        source = open_job([tmp_path / "logs"])
        for _ in source.batches(("id", "path", "file", "detail"), 1 << 16):
            most = max(most, sum(type(one).__name__ == "FileMetaData" for one in gc.get_objects()))
    finally:
        gc.set_threshold(*before)
    # THEN the metadata of the closed ones is not kept: two objects for each opening since garbage was collected
    assert 0 < most <= 2 * (8 + 4) + 2


def test_a_log_that_changes_while_it_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN logs that are closed in between, of which another one takes the place
    monkeypatch.setattr(merged_source, "MOST_OPEN", 0)
    four_ranks(tmp_path / "logs")
    source = open_job([tmp_path / "logs"])
    (tmp_path / "logs/node0/rank-0.parquet").unlink()
    rank_log(tmp_path / "logs/node0", 0, "node9")
    # THEN that is an error, not a mixture
    with pytest.raises(LogError) as problem:
        packer.pack_source(source, "job", tmp_path / "job.parquet")
    assert problem.value.slug == "log-changed"
    assert not (tmp_path / "job.parquet").exists()


def test_unreadable_logs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # GIVEN a cut log among others, and files that are no logs
    folder = four_ranks(tmp_path / "logs")
    whole = (folder / "node0/rank-0.parquet").read_bytes()
    (folder / "node0/rank-0.parquet").write_bytes(whole[: len(whole) // 2])
    (folder / "notes.txt").write_text("PAR1")
    (folder / "node1/garbage.parquet").write_bytes(b"no log at all")
    (folder / "node1/empty.pyio").touch()
    pq.write_table(pa.table({"x": [1]}), folder / "node1/data.parquet")
    assert main(["merge", str(folder), "-o", str(tmp_path / "job.parquet")]) == 0
    # THEN each that has the name of a log is named, and a loss of the merged log; data of others are told
    told = capsys.readouterr().out
    assert "3 logs could not be read" in told
    assert "1 Parquet file of other programs left out, the first:" in told and "data.parquet" in told
    losses = open_log(tmp_path / "job.parquet").losses()["unreadable_logs"]
    assert len(losses) == 3 and sum("garbage.parquet" in one or "empty.pyio" in one for one in losses) == 2
    # AND no log at all is an error
    (tmp_path / "empty").mkdir()
    for words in (["empty"], ["none"], []):
        assert main(["merge", *(str(tmp_path / word) for word in words), "-o", str(tmp_path / "x.parquet")]) == 2
    # AND a log that is read is not replaced
    log = folder / "node1/rank-2.parquet"
    assert main(["merge", str(folder), "-o", str(log)]) == 2


def test_identities_are_kept() -> None:
    # GIVEN devices and inodes with all their bits THEN the text has them
    files = identities.Identities(
        np.array([1, 2, 9]), np.array([-1, 0, 1 << 62]), np.array([5, -(1 << 63), (1 << 63) - 1])
    )
    again = identities.decoded(identities.encoded(files))
    assert [column.tolist() for column in again] == [column.tolist() for column in files]


@pytest.mark.parametrize(
    "text", ["", "1", "1 2", "2 1 AAAA", "1 1 ####", "1 1 AAAA", f"1 {1 << 21} AAAA", "1 -1 A", "1 x A"]
)
def test_forged_identities(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        identities.decoded(text)


def test_live_logs_and_their_packed_ones(tmp_path: Path) -> None:
    # GIVEN a live log and the log packed from it THEN it is read once
    rank_log(tmp_path, 0, "node0")
    writer = LogWriter(host="node0", boot_id="boot of node0")
    writer.header["run_id"] = 55
    writer.thread(writer.process(7, argv=["x"]), 7).record("STAT", begin=10, desc=writer.string("/a"))
    writer.save(tmp_path / "live.pyio")
    packer.pack(tmp_path / "live.pyio", tmp_path / "live.parquet")
    assert isinstance(open_job([tmp_path]), MergedSource)
    assert open_job([tmp_path]).rows() == 4
    assert LiveSource(tmp_path / "live.pyio").identities().file.tolist() == []
