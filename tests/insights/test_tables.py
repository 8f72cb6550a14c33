"""Rules on Parquet, zarr, Dask's partitions and spilling, and on servers, on programs that use them."""

from __future__ import annotations

import pytest

from tests.support.findings import evidence_of, findings_of, none, only
from tests.support.programs import Runner, succeeded

pytestmark = pytest.mark.once

FILTER = """
import numpy as np, pyarrow as pa, pyarrow.parquet as pq
rng = np.random.default_rng(1)
table = pa.table({"key": rng.permutation(200_000), "a": rng.random(200_000), "b": rng.random(200_000)})
pq.write_table(TABLE, "t.parquet", row_group_size=10_000)
print(pq.read_table("t.parquet", filters=[("key", "<", 1000)]).num_rows)
"""


def test_a_filter_on_rows_in_no_order(program: Runner) -> None:
    pytest.importorskip("pyarrow.parquet")
    outcome = program.traced(FILTER.replace("TABLE", "table"))
    finding = only(findings_of(outcome), "parquet-filter")
    values = finding.evidence[0].values
    # The reader may use most of a file's bytes twice: once for the footer at its end.
    whole = (program.folder / "t.parquet").stat().st_size
    assert values["rows"] == 1000 and 0.9 * whole <= int(values["read"]) <= whole + (1 << 17)
    assert [site.line for site in finding.sites] == [6] and finding.files == [f"{program.folder}/t.parquet"]


def test_a_filter_on_sorted_rows(program: Runner) -> None:
    pytest.importorskip("pyarrow.parquet")
    outcome = program.traced(FILTER.replace("TABLE", "table.sort_by('key')"))
    assert none(findings_of(outcome), "parquet-filter")


COLUMNS = """
import numpy as np, pandas as pd
pd.DataFrame({f"c{n}": np.random.default_rng(n).random(100_000) for n in range(20)}).to_parquet("t.parquet")
frame = pd.read_parquet("t.parquet"OPTIONS)
print(frame.c1.sum())
"""


def test_all_columns(program: Runner) -> None:
    pytest.importorskip("pandas")
    finding = only(findings_of(program.traced(COLUMNS.replace("OPTIONS", ""))), "parquet-all-columns")
    assert finding.evidence[0].values["columns"] == 20 and finding.recoverable.bound == "upper"
    assert [site.line for site in finding.sites] == [4] and finding.remedy is not None
    assert finding.remedy.library == "pandas"
    two = program.traced(COLUMNS.replace("OPTIONS", ", columns=['c1', 'c2']"), log="two.pyio")
    assert none(findings_of(two), "parquet-all-columns")


ZARR = """
import numpy as np, zarr
array = zarr.create_array("a.zarr", shape=(64, 64), chunks=CHUNKS, dtype="f8"FORMAT)
array[:] = np.random.default_rng(1).random((64, 64))
print(zarr.open_array("a.zarr", mode="r")[:].sum())
"""


@pytest.mark.parametrize("format", ["", ", zarr_format=2"])
def test_small_chunks_of_zarr(program: Runner, format: str) -> None:
    pytest.importorskip("zarr")
    outcome = program.traced(ZARR.replace("CHUNKS", "(4, 4)").replace("FORMAT", format))
    finding = only(findings_of(outcome), "zarr-small-chunks")
    values = finding.evidence[0].values
    # GIVEN 256 chunks, each written and read THEN all are counted, with at least an open and a close for each
    assert values["chunks"] == 256 and int(values["metadata_calls"]) >= 4 * 256
    assert finding.files == [f"{program.folder}/a.zarr"] and 5 in {site.line for site in finding.sites}
    assert len(evidence_of(finding, outcome.log)) > 1


def test_large_chunks_of_zarr(program: Runner) -> None:
    pytest.importorskip("zarr")
    outcome = program.traced(ZARR.replace("CHUNKS", "(32, 64)").replace("FORMAT", ""))
    assert none(findings_of(outcome), "zarr-small-chunks")


PARTS = """
import dask, os
with open("x.bin", "wb") as f: f.write(os.urandom(600_000))

def part(n):
    with open("x.bin", "rb") as f:
        f.seek(n * SIZE)
        return sum(f.read(SIZE))

print(sum(dask.compute(*[dask.delayed(part)(n) for n in range(600_000 // SIZE)], scheduler="threads")))
"""


def test_many_small_tasks(program: Runner) -> None:
    pytest.importorskip("dask")
    outcome = program.traced(PARTS.replace("SIZE", "1000"))
    finding = only(findings_of(outcome), "small-partitions")
    assert finding.evidence[0].values["tasks"] == 600 and "part" in finding.title
    large = program.traced(PARTS.replace("SIZE", "200_000"), log="large.pyio")
    assert none(findings_of(large), "small-partitions")


SPILL = """
import dask, numpy, os
from dask.distributed import Client

def block(n):
    return numpy.random.default_rng(n).random(250_000)

if __name__ == "__main__":
    memory = {"target": 0.5, "spill": False, "pause": False, "terminate": False}
    dask.config.set({f"distributed.worker.memory.{name}": value for name, value in memory.items()})
    with Client(processes=False, n_workers=1, threads_per_worker=1, memory_limit="LIMIT", dashboard_address=None) as c:
        blocks = c.persist([dask.delayed(block)(n) for n in range(12)])
        print(c.compute(dask.delayed(sum)([one.sum() for one in blocks])).result())
"""


def test_data_that_are_spilled(program: Runner) -> None:
    pytest.importorskip("distributed")
    # GIVEN 24 MB of results in a worker that keeps 4 MB in memory
    outcome = succeeded(program.traced(SPILL.replace("LIMIT", "8MB")))
    finding = only(findings_of(outcome), "spill")
    written = [row["bytes_moved"] for row in outcome.select(op_class="write", op_role="io", path=_spilled)]
    assert finding.evidence[0].values["written"] == sum(written) >= 16_000_000
    assert sum(int(row["calls"]) for row in evidence_of(finding, outcome.log) if row["op"] == "write") == len(written)


def test_data_that_fit_into_memory(program: Runner) -> None:
    pytest.importorskip("distributed")
    assert none(findings_of(program.traced(SPILL.replace("LIMIT", "1GB"))), "spill")


def _spilled(path: str | None) -> bool:
    return path is not None and "/dask-scratch-space" in path and "/storage/" in path


SERVER = """
import http.server, pandas, threading

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b"a,b\\n1,2\\n" * 3
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args): pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}/part"
frames = [pandas.read_csv(f"{url}{n}.csv") for n in range(COUNT)]
server.shutdown()
"""


def test_a_request_for_each_item(program: Runner) -> None:
    pytest.importorskip("pandas")
    outcome = program.traced(SERVER.replace("COUNT", "110"))
    finding = only(findings_of(outcome), "remote-requests")
    assert finding.evidence[0].values["requests"] == 110 and finding.evidence[0].values["names"] == 110
    assert [site.line for site in finding.sites] == [16] and "http://127.0.0.1:" in finding.title
    few = program.traced(SERVER.replace("COUNT", "5"), log="few.pyio")
    assert none(findings_of(few), "remote-requests")


POLARS = """
import polars
polars.DataFrame({"a": range(200_000), "b": range(200_000)}).write_csv("t.csv")
for n in range(TIMES): polars.read_csv("t.csv")
"""


def test_a_file_that_polars_reads_again(program: Runner) -> None:
    # GIVEN polars, which reads in threads of its own, where no line of the program is
    pytest.importorskip("polars")
    outcome = succeeded(program.traced(POLARS.replace("TIMES", "6")))
    finding = only(findings_of(outcome), "read-again")
    # THEN the finding has the line that called it
    whole = (program.folder / "t.csv").stat().st_size
    assert finding.files == [f"{program.folder}/t.csv"] and int(finding.evidence[0].values["bytes"]) >= 6 * whole
    assert 4 in [site.line for site in finding.sites]
    once = program.traced(POLARS.replace("TIMES", "1"), log="once.pyio")
    assert none(findings_of(once), "read-again")
