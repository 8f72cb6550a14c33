"""What is done again with the bytes that are read again, and the words for it."""

from __future__ import annotations

import pytest

from tests.support.findings import findings_of, only
from tests.support.programs import Runner

pytestmark = pytest.mark.once

UNPACKED = """
import random, zlib
random.seed(1)
with open("packed", "wb") as f: f.write(zlib.compress(bytes(random.choices(range(16), k=1_000_000)), 1))
def load():
    with open("packed", "rb") as f: return zlib.decompress(f.read())
for n in range(60): load()
"""
#: 40 questions for a file of a few bytes, beside a line that computes.
FLAG = """
open("flag", "w").write("0123456789" * 30)
for n in range(40): total = sum(k * k for k in range(20_000)) if open("flag").read() else 0
"""


def test_what_the_line_unpacks_is_part_of_the_price(program: Runner) -> None:
    # GIVEN a file that is read and unpacked 60 times at a line WHEN findings are made
    outcome = program.traced(UNPACKED)
    finding = only(findings_of(outcome), "read-again")
    # THEN the price is what the line took, at most, and many times what its reads took
    io = sum(row["duration"] for row in outcome.select(op="read") if row["path"] == f"{program.folder}/packed")
    assert finding.recoverable.bound == "upper" and finding.recoverable_ns > 4 * io > 0
    assert "computes" in finding.recoverable.how and finding.sites[0].line == 6


def test_what_a_line_computes_besides_is_not(program: Runner) -> None:
    # GIVEN a small file that is asked for at a line that computes for long WHEN findings are made
    found = [one for one in findings_of(program.traced(FLAG)) if one.slug == "read-again"]
    # THEN no price is more than what unpacking so few bytes could take
    assert all("computes" not in one.recoverable.how or one.recoverable_ns <= 200 * 40 * 300 for one in found)


def test_a_library_that_reads_in_threads_has_a_line(program: Runner) -> None:
    # GIVEN a query of polars that is collected again and again WHEN findings are made
    pytest.importorskip("polars")
    text = """
    import polars
    with open("sales.csv", "w") as f:
        f.write("shop,amount\\n"); f.writelines(f"{n % 40},{n}\\n" for n in range(100_000))
    sales = polars.scan_csv("sales.csv")
    for shop in range(8): sales.filter(polars.col("shop") == shop).collect()
    """
    finding = only(findings_of(program.traced(text)), "read-again")
    # THEN the line is that of the query, and the words are those of polars
    assert 6 in [site.line for site in finding.sites]
    assert finding.remedy is not None and finding.remedy.library == "polars"


def test_duckdb_is_known_by_its_import(program: Runner) -> None:
    # GIVEN a view of a CSV file that DuckDB reads again for each query WHEN findings are made
    pytest.importorskip("duckdb")
    text = """
    import duckdb
    with open("trips.csv", "w") as f:
        f.write("zone,fare\\n"); f.writelines(f"{n % 50},{n}\\n" for n in range(100_000))
    db = duckdb.connect()
    db.execute("CREATE VIEW trips AS SELECT * FROM read_csv('trips.csv')")
    for zone in range(8): db.execute(f"SELECT count(*) FROM trips WHERE zone = {zone}").fetchone()
    """
    remedy = only(findings_of(program.traced(text)), "read-again").remedy
    # THEN the remedy is a table
    assert remedy is not None and "CREATE TABLE" in remedy.after


def test_a_step_back_in_an_archive_that_the_run_made(program: Runner) -> None:
    # GIVEN members of a .tar.gz in another order than they are stored in WHEN findings are made
    text = """
    import io, random, tarfile
    with tarfile.open("a.tar.gz", "w:gz", compresslevel=1) as archive:
        for n in range(20):
            info = tarfile.TarInfo(f"{n:02d}"); info.size = 50_000
            archive.addfile(info, io.BytesIO(random.randbytes(info.size)))
    with tarfile.open("a.tar.gz", "r:gz") as archive:
        for n in reversed(range(20)): archive.extractfile(f"{n:02d}").read()
    """
    remedy = only(findings_of(program.traced(text)), "read-again").remedy
    # THEN it is not told to open the archive once, which it does
    assert remedy is not None and "step back unpacks" in remedy.text


REOPENED = """
import h5py, numpy
with h5py.File("cube.h5", "w") as file:
    cube = file.create_dataset("cube", (240, 240, 25), "i2", chunks=(24, 24, 25), compression="gzip")
    cube[:] = numpy.random.default_rng(4).integers(0, 16, cube.shape, dtype="i2")
for n in range(12):
    with h5py.File("cube.h5", "r") as file: file["cube"][:, :, n].sum()
"""


def test_a_dataset_that_stays_open_needs_room_too(program: Runner) -> None:
    # GIVEN reads that need 2.9 MB of chunks each, from a file that is opened each time WHEN findings are made
    pytest.importorskip("h5py")
    remedy = only(findings_of(program.traced(REOPENED)), "hdf5-chunks-again").remedy
    # THEN the remedy keeps it open, with room for them
    assert remedy is not None and "rdcc_nbytes=3 << 20" in remedy.after and "Keep the dataset open" in remedy.text


FLUSHED = """
import h5py, multiprocessing
def write(ready, read):
    with h5py.File("live.h5", "w", libver="latest") as file:
        data = file.create_dataset("d", (0, 50), maxshape=(None, 50), chunks=(1, 50), dtype="f8")
        file.swmr_mode = True
        for n in range(60):
            data.resize(n + 1, axis=0); data[n] = n; data.flush()
            if n == 40: ready.set(); READS
def follow(ready, read):
    ready.wait()
    with h5py.File("live.h5", "r", libver="latest", swmr=True) as file: file["d"][:]
    read.set()
if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    events = context.Event(), context.Event()
    both = [context.Process(target=one, args=events) for one in (write, follow)]
    for one in both: one.start()
    for one in both: one.join()
"""


def test_who_reads_what_is_flushed(program: Runner) -> None:
    # GIVEN a file that another process reads between two flushes WHEN findings are made
    pytest.importorskip("h5py")
    remedy = only(findings_of(program.traced(FLUSHED.replace("READS", "read.wait()"))), "hdf5-flush-per-item").remedy
    # THEN it is not told to flush rarely, as if nobody read it
    assert remedy is not None and "Another process" in remedy.text
