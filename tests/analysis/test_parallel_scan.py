"""Scans in other processes and on a Dask cluster: the same figures as in one process, and errors of one line."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pyio_trace.analysis.calls.call_order import PendingCalls
from pyio_trace.analysis.reducer import found, scan
from pyio_trace.analysis.reducers.accesses import AccessesByLine
from pyio_trace.analysis.scan import parallel_scan
from pyio_trace.analysis.scan.decoding import decoded
from pyio_trace.analysis.scan.filters import Filter, restrict
from pyio_trace.analysis.scan.parallel_scan import Address, Task, run_task, scan_with
from pyio_trace.analysis.scan.workers import Workers, dask_cluster, local_processes
from pyio_trace.analysis.summary.summarize import summarize
from pyio_trace.analysis.summary.summary_rows import SummaryReader
from pyio_trace.analysis.summary.summary_sums import SummarySums
from pyio_trace.analysis.summary.summary_times import SummaryTimes
from pyio_trace.analysis.sums.intervals import Horizon
from pyio_trace.analysis.tables.sums_tables import by_file, by_stack
from pyio_trace.analysis.view_sums import access_sums
from pyio_trace.cli.main import main
from pyio_trace.errors import ConfigError, LogError
from pyio_trace.join.pack import packer
from pyio_trace.join.sources.facade import Log
from pyio_trace.join.sources.opening import open_log
from tests.support.busy_run import busy_logs, cluster_of_two
from tests.support.logwriter import LogWriter
from tests.support.programs import Runner, succeeded
from tests.support.results import plain

pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The live log of a busy run, and the same packed with many row groups."""
    return busy_logs(tmp_path_factory.mktemp("busy"))


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The address of a Dask cluster of two workers."""
    with cluster_of_two() as address:
        yield address


@pytest.fixture(scope="module", params=["processes", "dask"])
def workers(request: pytest.FixtureRequest) -> Iterator[Workers]:
    if request.param == "processes":
        with local_processes(2) as found_here:
            yield found_here
    else:
        with dask_cluster(request.getfixturevalue("cluster")) as found_there:
            yield found_there


def figures(log: Log, workers: Workers | None = None) -> list[Any]:
    """All that a scan gives: the summary, the tables by file and stack, and what each reducer finds."""
    tables = [table(log, workers=workers) for table in (by_file, by_stack)]
    reduced = scan(log, [reducer() for reducer in found().values()], workers=workers)
    return [summarize(log, workers=workers), *tables, *map(plain, reduced)]


@pytest.fixture(scope="module")
def figures_here(logs: dict[str, Path]) -> dict[str, list[Any]]:
    """The figures of each log, made in this process."""
    return {kind: figures(open_log(path)) for kind, path in logs.items()}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["live", "packed"])
def test_the_same_figures(
    logs: dict[str, Path], figures_here: dict[str, list[Any]], workers: Workers, kind: str
) -> None:
    # GIVEN a log that several tasks read
    log = open_log(logs[kind])
    assert log.rows() > 120_000 and log.divisions()[0] >= 3
    # WHEN it is summed up by workers THEN all figures are those of one process
    assert figures(log, workers) == figures_here[kind]


def test_live_and_packed_are_the_same(logs: dict[str, Path], workers: Workers) -> None:
    live, packed = (summarize(open_log(logs[kind]), workers=workers) for kind in ("live", "packed"))
    assert (live.layers, live.bytes, live.files, live.sites) == (
        packed.layers,
        packed.bytes,
        packed.files,
        packed.sites,
    )
    assert live.overview is not None and packed.overview is not None
    assert live.overview.processes == packed.overview.processes


def test_a_selection(logs: dict[str, Path], workers: Workers) -> None:
    chosen = Filter(ops=["pread"], paths=["shared"], text="--op pread --path shared")
    log = restrict(open_log(logs["packed"]), chosen)
    summary = summarize(log, workers=workers)
    assert summary == summarize(log)
    assert summary.run.records == 2 * 2 * 200 * 150


def test_a_folder_of_logs(logs: dict[str, Path], workers: Workers, tmp_path: Path, program: Runner) -> None:
    # GIVEN a folder with the logs of two runs
    second = succeeded(program.traced("open('other', 'w').write('x' * 100)")).path
    for number, path in enumerate((logs["packed"], second)):
        (tmp_path / f"{number}{path.suffix}").write_bytes(path.read_bytes())
    log = open_log(tmp_path)
    assert len(log.divisions()) == 2
    # THEN its figures are the same, and the progress adds up to all rows
    rows: list[int] = []
    assert summarize(log, progress=rows.append, workers=workers) == summarize(log)
    assert sum(rows) == log.rows()


def test_a_damaged_log_ends_no_worker(logs: dict[str, Path], workers: Workers, tmp_path: Path) -> None:
    # GIVEN a packed log with a damaged page in its middle, of a column that every summary reads
    data = bytearray(logs["packed"].read_bytes())
    groups = pq.ParquetFile(logs["packed"]).metadata
    group = groups.row_group(groups.num_row_groups // 2)
    pages = next(one for n in range(groups.num_columns) if (one := group.column(n)).path_in_schema == "duration")
    middle = pages.data_page_offset + pages.total_compressed_size // 2
    data[middle : middle + 64] = bytes(byte ^ 0x55 for byte in data[middle : middle + 64])
    (tmp_path / "bad.parquet").write_bytes(data)
    with pytest.raises(LogError) as here:
        summarize(open_log(tmp_path / "bad.parquet"))
    # WHEN workers read it THEN the error is the same, and they go on with other logs
    with pytest.raises(LogError) as there:
        summarize(open_log(tmp_path / "bad.parquet"), workers=workers)
    assert str(there.value) == str(here.value)
    assert summarize(open_log(logs["packed"]), workers=workers).run.records > 0


def test_another_log_under_the_same_name(workers: Workers, tmp_path: Path, program: Runner) -> None:
    # GIVEN an open log whose file is replaced by another run's
    first = succeeded(program.traced("open('one', 'w').write('x')", log="run.pyio"))
    log = first.log
    assert log.rows() > 0
    first.path.unlink()
    succeeded(program.traced("open('two', 'w').write('x')", log="run.pyio"))
    # THEN workers refuse it, instead of adding up both
    with pytest.raises(LogError, match="log-changed"):
        summarize(log, workers=workers)


def test_a_run_that_goes_on(logs: dict[str, Path], workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(logs["live"])
    table = log.processes()
    at = table.schema.get_field_index("ended")
    running = table.set_column(at, "ended", pa.array(["running"] * len(table)))
    monkeypatch.setattr(log, "processes", lambda: running)
    with pytest.raises(ConfigError, match="still-running"):
        by_file(log, workers=workers)


class Fatal:
    """A reducer that ends its process."""

    columns = ("id",)

    def partial(self, batch: pa.RecordBatch) -> int:
        os._exit(3)

    def combine(self, part: int, later: int) -> int:
        return part

    def finish(self, part: int | None, log: Log) -> int | None:
        return part


def test_a_worker_that_is_killed(logs: dict[str, Path]) -> None:
    with local_processes(2) as workers, pytest.raises(LogError, match=r"2 processes could not finish.*worker-lost"):
        scan_with(workers, open_log(logs["packed"]), [Fatal()])


def test_parts_are_small_when_sent(logs: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN the parts of the first 20,000 rows and of all 120,000 rows, where 5,000 are enough to know what is over
    monkeypatch.setattr(Horizon, "_ROWS", 5_000)
    monkeypatch.setattr(Horizon, "_MARGIN", 100_000)
    log = open_log(logs["packed"])
    table = log.processes().to_pylist()
    reader = SummaryReader(log, table)
    for reducer in (SummarySums(reader), SummaryTimes.of(reader, table)):
        sizes = []
        for groups in (2, log.divisions()[0]):
            part: Any = None
            for batch in decoded(log, reducer.columns, within=(0, groups)):
                one: Any = reducer.partial(batch)
                part = one if part is None else reducer.combine(part, one)
            sizes.append(len(pickle.dumps(part)))
        # THEN what would be sent has not grown with the rows, as intervals and ids would have
        assert sizes[1] < 2 * sizes[0]


class Heavy:
    """A reducer whose part is large, and whose sum depends on the order."""

    columns: ClassVar[tuple[str, ...]] = ("id",)
    ordered = True

    def partial(self, batch: pa.RecordBatch) -> tuple[list[int], bytes]:
        return [batch.num_rows], os.urandom(200_000)

    def combine(self, part: tuple[list[int], bytes], later: tuple[list[int], bytes]) -> tuple[list[int], bytes]:
        return part[0] + later[0], later[1]

    def finish(self, part: tuple[list[int], bytes] | None, log: Log) -> list[int]:
        return part[0] if part else []


@pytest.mark.filterwarnings("error:Sending large graph")
def test_large_parts_are_in_no_graph(logs: dict[str, Path], cluster: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN a sum that depends on the order of rows, with a large part, and tasks of few rows
    dask = pytest.importorskip("dask")
    monkeypatch.setattr("pyio_trace.analysis.scan.parallel_scan._TASK_ROWS", 20_000)
    log = open_log(logs["packed"])
    # WHEN a Dask cluster makes it, one task after the other THEN no graph holds the part, and the sum is the same
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "100kB"}), dask_cluster(cluster) as there:
        assert scan_with(there, log, [Heavy()]) == scan(log, [Heavy()])


@pytest.mark.slow
def test_commands(logs: dict[str, Path], cluster: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(logs["packed"])
    for command in (["summary", "--json"], ["files", "--format", "csv"], ["stacks", "--op", "p*"], ["counters"]):
        printed = []
        for how in ([], ["--jobs", "2"], ["--scheduler", cluster]):
            assert main([command[0], path, *command[1:], *how]) == 0
            printed.append(capsys.readouterr().out)
        assert printed[0] and printed == [printed[0]] * 3


@pytest.mark.parametrize(
    ("options", "slug"),
    [
        (["--jobs", "0"], "bad-value"),
        (["--jobs", "many"], "bad-value"),
        (["--jobs", "2", "--scheduler", "tcp://127.0.0.1:1"], "contradictory-options"),
        (["--scheduler", "tcp://127.0.0.1:1"], "no-scheduler"),
        (["--scheduler", ""], "no-scheduler"),
        (["--scheduler", "nowhere://x"], "no-scheduler"),
    ],
)
def test_options_that_cannot_be(
    logs: dict[str, Path], options: list[str], slug: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("distributed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pyio_trace.analysis.scan.workers._PATIENCE", "1s")
        assert main(["summary", str(logs["packed"]), *options]) == 2
    error = capsys.readouterr().err
    assert error.endswith(f"[{slug}]\n") and error.count("\n") == 1


@pytest.mark.parametrize("address", ["", "x", "http://x:1", "tls://127.0.0.1:1", "tcp://[::1"])
def test_an_address_that_is_none(logs: dict[str, Path], address: str) -> None:
    pytest.importorskip("distributed")
    # GIVEN an address that no scheduler can have WHEN a log is to be read there, in a process of its own
    words = [sys.executable, "-m", "pyio_trace", "summary", str(next(iter(logs.values()))), "--scheduler", address]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    # THEN one line says so, and nothing else does when the process ends
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("pyio-trace: no Dask scheduler at ") and done.stderr.count("\n") == 1


def test_tasks_do_not_judge_the_order_of_their_first_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN 400 sequential reads in many row groups, and buffers so small that each batch is counted at once
    writer = LogWriter()
    thread, desc = writer.thread(writer.process(100), 100), writer.desc(3, "/d/x", dev=1, ino=1)
    for number in range(400):
        begin = 2_000 + 100 * number
        thread.record("PREAD", begin=begin, desc=desc, aux=3, offset=10 * number, size=10, result=10)
    monkeypatch.setattr(packer, "_ROW_GROUP", 16)
    packer.pack(writer.save(tmp_path / "run.pyio"), tmp_path / "run.parquet")
    monkeypatch.setattr(access_sums, "PENDING", 20)
    monkeypatch.setattr(PendingCalls, "CHUNK", 1)
    log, reducer = open_log(tmp_path / "run.parquet"), AccessesByLine()
    (last,) = log.divisions()
    address = Address(str(tmp_path / "run.parquet"), parallel_scan._runs(log), log.rows(), None)
    # WHEN two tasks read half of them each THEN the second half still follows on from the first
    parts = [run_task(Task(address, [reducer], within))[0] for within in ((0, last // 2), (last // 2, last))]
    (row,) = reducer.finish(reducer.combine(*parts), log).rows
    assert (last, row.calls, row.first, row.consecutive) == (25, 400, 1, 399)


def test_a_task_opens_its_log_once(logs: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    class Here:
        """An executor that runs everything in this thread."""

        def submit(self, function: Any, *given: Any) -> Any:
            from concurrent.futures import Future

            future: Future[Any] = Future()
            future.set_result(run_task(*pickle.loads(pickle.dumps(given))))
            return future

    opened: list[str] = []

    def noting(path: str) -> Log:
        opened.append(path)
        return open_log(path)

    monkeypatch.setattr("pyio_trace.join.sources.opening.open_log", noting)
    monkeypatch.setattr(parallel_scan, "_opened", type(parallel_scan._opened)())
    log = open_log(logs["packed"])
    assert summarize(log, workers=Workers(Here(), 2, "here")) == summarize(log)  # type: ignore[arg-type]
    assert opened == [str(logs["packed"])]
