"""Logs that other processes or a Dask cluster read for `merge`: the same bytes as without."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pyio_trace.cli.main import main
from pyio_trace.errors import LogError
from pyio_trace.join.pack import packer
from pyio_trace.join.sources import spread_source
from pyio_trace.join.sources.opening import open_job
from pyio_trace.join.sources.spread_source import Spread
from tests.join.test_merge import four_ranks
from tests.support.logwriter import LogWriter


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Those of four ranks, one log of several row groups, a live one, a damaged one, and data of another program."""
    folder = four_ranks(tmp_path / "logs", clock=5_000_000_000, init=(1_500, 1_600, 1_700, 1_800))
    writer = LogWriter(host="node1", boot_id="boot of node1")
    writer.header["run_id"] = 7
    process = writer.process(7, version="3.11.7")
    thread = writer.thread(process, 7)
    for number in range(100):
        thread.record("WRITE", begin=2_000 + number, desc=writer.desc(3, f"/tmp/{number}"), size=number, result=number)
    writer.save(folder / "live.pyio")
    with monkeypatch.context() as patched:
        patched.setattr(packer, "_ROW_GROUP", 7)
        packer.pack(folder / "live.pyio", folder / "groups.parquet")
    writer.header["run_id"] = 8
    writer.save(folder / "live.pyio")
    whole = (folder / "node0/rank-0.parquet").read_bytes()
    (folder / "cut.parquet").write_bytes(whole[: len(whole) // 2] + b"PAR1")
    pq.write_table(pa.table({"x": [1]}), folder / "another.parquet")
    return folder


def merged(logs: Path, spread: Spread | None) -> tuple[bytes, dict[str, Any], list[str]]:
    output = logs.parent / "job.parquet"
    source = open_job([logs], spread=spread)
    packer.pack_source(source, output, output)
    return output.read_bytes(), source.losses(), source.left_out


@pytest.mark.parametrize("small", [0, 300, 1 << 16])
@pytest.mark.parametrize("count", [1, 3])
def test_the_same_bytes(count: int, small: int, logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN logs of every kind WHEN workers read them, whether none, some or all of their tables count as small
    monkeypatch.setattr(spread_source, "_SMALL", small)
    with ThreadPoolExecutor(count) as executor:
        spread = merged(logs, Spread(executor, count, "threads"))
    # THEN nothing differs, and what cannot be read is known
    assert spread == merged(logs, None)
    assert len(spread[1]["unreadable_logs"]) == 1 and len(spread[2]) == 1


def test_few_results_wait(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # WHEN one worker reads the logs THEN only a few of its results wait to be used
    waiting: list[int] = []
    result = Spread.result

    def counted(spread: Spread, *arguments: Any) -> Any:
        found = result(spread, *arguments)
        waiting.append(len(spread._waiting))
        return found

    monkeypatch.setattr(Spread, "result", counted)
    with ThreadPoolExecutor(1) as executor:
        merged(logs, Spread(executor, 1, "a thread"))
    assert len(waiting) > 20 and max(waiting) == spread_source._AHEAD


class _Lost(Executor):
    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Any:
        raise BrokenExecutor("killed\nby somebody")


def test_a_lost_worker(logs: Path) -> None:
    with pytest.raises(LogError, match="2 hosts could not finish: killed; ") as raised:
        open_job([logs], spread=Spread(_Lost(), 2, "2 hosts"))
    assert raised.value.slug == "worker-lost"


def test_a_log_that_changes(logs: Path) -> None:
    # GIVEN a log that is replaced after it was opened THEN nothing is made of both
    with ThreadPoolExecutor(1) as executor:
        source = open_job([logs], spread=Spread(executor, 1, "a thread"))
        path = logs / "node1/rank-3.parquet"
        path.write_bytes((logs / "groups.parquet").read_bytes())
        with pytest.raises(LogError) as raised:
            packer.pack_source(source, logs / "job.parquet", logs / "job.parquet")
    assert raised.value.slug == "log-changed" and not (logs / "job.parquet").exists()


@pytest.mark.slow
@pytest.mark.once
def test_on_a_cluster(logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # GIVEN a Dask cluster, and processes of this host WHEN they read the logs THEN the merged log has the same bytes
    distributed = pytest.importorskip("distributed", reason="Dask is not installed")
    (logs / "another.parquet").unlink()
    options: dict[str, Any] = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(local_directory=str(tmp_path / "dask"), **options) as cluster:
        results: list[bytes] = []  # under one name, which is in a merged log
        for more in ([], ["--jobs", "2"], ["--dask", cluster.scheduler_address]):
            assert main(["merge", str(logs), "-o", str(tmp_path / "job.parquet"), *more]) == 0
            results.append((tmp_path / "job.parquet").read_bytes())
    assert results[1:] == results[:1] * 2
    assert capsys.readouterr().out.count("6 logs of 2 hosts") == 3
