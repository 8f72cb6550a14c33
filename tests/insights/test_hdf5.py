"""Rules about HDF5, on programs that use h5py: each has a program with the problem, and one without it."""

from __future__ import annotations

import pytest

from pyio_trace.insights.hdf5_use import box_of, extents_of
from tests.support.findings import evidence_of, findings_of, none, only
from tests.support.programs import Runner

pytest.importorskip("h5py")
pytestmark = pytest.mark.once

HDF5 = ("hdf5-chunks-again", "hdf5-chunk-cache", "hdf5-chunk-shape", "hdf5-contiguous", "hdf5-tiny-chunks",
        "hdf5-flush-per-item", "hdf5-reopen-per-item")  # fmt: skip

#: A dataset of 1024 x 512 in 32 chunks of 64 x 256, with what the creation is given.
MADE = """
import h5py, numpy as np
with h5py.File("c.h5", "w") as f:
    f.create_dataset("d", data=np.arange(1024 * 512, dtype="f8").reshape(1024, 512), CREATED)
"""
CHUNKED = "chunks=(64, 256)"


def made(created: str) -> str:
    return MADE.replace("CREATED", created)


def test_compressed_chunks_that_do_not_stay_in_the_cache(program: Runner) -> None:
    # GIVEN 12 columns, each of which needs the same 16 of 32 compressed chunks of 128 KiB, in a cache of 256 KiB
    outcome = program.traced(
        made(f"{CHUNKED}, compression='gzip'")
        + """
with h5py.File("c.h5", rdcc_nbytes=256 << 10) as f:
    d = f["d"]
    for c in range(12):
        d[:, c]
"""
    )
    # WHEN findings are made
    found = findings_of(outcome)
    finding = only(found, "hdf5-chunks-again")
    # THEN it says what was fetched, at which line, and how large a cache has to be: 16 chunks are 2 MiB
    values = finding.evidence[0].values
    assert (values["reads"], values["chunks"], values["fetched"]) == (12, 16, 192)
    assert [site.line for site in finding.sites] == [9]
    assert finding.remedy is not None and "rdcc_nbytes=2 << 20" in finding.remedy.after
    assert len(evidence_of(finding, outcome.log)) == 12
    assert none(found, "hdf5-chunk-cache")
    # AND the uname that h5py runs when it is imported does not weaken it
    assert not any("child" in text for text in finding.confidence.lowered_by)
    # AND none of it is left with that cache
    again = program.traced(
        made(f"{CHUNKED}, compression='gzip'")
        + """
with h5py.File("c.h5", rdcc_nbytes=2 << 20, rdcc_nslots=1601) as f:
    d = f["d"]
    for c in range(12):
        d[:, c]
""",
        log="again.pyio",
    )
    assert none(findings_of(again), "hdf5-chunks-again")


def test_a_dataset_opened_for_each_read(program: Runner) -> None:
    # GIVEN rows of one compressed chunk, each read through a dataset of its own, whose cache begins empty
    loop = """
with h5py.File("c.h5") as f:
    for n in range(40):
        f["d"][n]
"""
    outcome = program.traced(made(f"{CHUNKED}, compression='gzip'") + loop)
    finding = only(findings_of(outcome), "hdf5-chunks-again")
    # THEN the remedy is to keep the dataset, not a larger cache
    assert (finding.evidence[0].values["chunks"], finding.evidence[0].values["fetched"]) == (2, 80)
    assert finding.remedy is not None and "rdcc" not in finding.remedy.after
    kept = loop.replace("    for", "    d = f['d']\n    for").replace('f["d"][n]', "d[n]")
    again = program.traced(made(f"{CHUNKED}, compression='gzip'") + kept, log="kept.pyio")
    assert none(findings_of(again), "hdf5-chunks-again")


def test_chunks_without_compression(program: Runner) -> None:
    outcome = program.traced(
        made(CHUNKED)
        + """
with h5py.File("c.h5", rdcc_nbytes=256 << 10) as f:
    d = f["d"]
    for c in range(12):
        d[0:512, c]
"""
    )
    found = findings_of(outcome)
    finding = only(found, "hdf5-chunk-cache")
    assert finding.evidence[0].values["chunks"] == 8 and finding.evidence[0].values["fetched"] == 96
    assert none(found, "hdf5-chunks-again")


ROWS = """
with h5py.File("c.h5"CACHE) as f:
    d = f["d"]
    for n in range(6):
        for row in range(0, 1024, 64):
            d[row, 256 * (n % 2)]
"""


def test_chunks_that_later_reads_need_again(program: Runner) -> None:
    # GIVEN reads of one chunk of 128 KiB each, of which 32 are needed three times, and a cache with room for 8
    compressed = made(f"{CHUNKED}, compression='gzip'")
    small = compressed + ROWS.replace("CACHE", ", rdcc_nbytes=1 << 20")
    finding = only(findings_of(program.traced(small)), "hdf5-chunks-again")
    assert (finding.evidence[0].values["chunks"], finding.evidence[0].values["fetched"]) == (32, 96)
    # THEN the cache that is advised has room for all of them, AND the finding is gone with it
    assert finding.remedy is not None and "rdcc_nbytes=4 << 20" in finding.remedy.after
    advised = finding.remedy.after.partition("(path")[2].rstrip(")")
    followed = program.traced(compressed + ROWS.replace("CACHE", advised), log="followed.pyio")
    assert none(findings_of(followed), "hdf5-chunks-again")


def test_single_elements_of_chunks(program: Runner) -> None:
    # GIVEN elements here and there, for which larger chunks would only be more to read
    single = "with h5py.File('c.h5') as f:\n    for n in range(0, 1024, 128): f['d'][n, n // 2]\n"
    assert none(findings_of(program.traced(made(CHUNKED) + single)), "hdf5-chunk-shape")


def test_a_column_of_row_chunks(program: Runner) -> None:
    # GIVEN one column, 1024 of 524,288 elements, that needs 16 chunks of 64 x 256
    outcome = program.traced(made(CHUNKED) + "with h5py.File('c.h5') as f:\n    f['d'][:, 3]\n")
    finding = only(findings_of(outcome), "hdf5-chunk-shape")
    assert finding.evidence[0].values["asked"] == 8192 and finding.evidence[0].values["chunks_bytes"] == 16 * 131072
    # THEN the shape that is advised is one of whole columns
    assert finding.remedy is not None and "chunks=(1024, 32)" in finding.remedy.after
    assert [site.line for site in finding.sites] == [6]


NETCDF = """
import netCDF4, numpy as np
with netCDF4.Dataset("d.nc", "w") as f:
    for name, size in (("time", 24), ("lat", 180), ("lon", 360)):
        f.createDimension(name, size)
    v = f.createVariable("t2m", "f4", ("time", "lat", "lon"), zlib=True, chunksizes=(1, 180, 360))
    v[:] = np.arange(24 * 180 * 360).reshape(24, 180, 360)
with netCDF4.Dataset("d.nc") as f:
    for hour in range(24):
        float(f["t2m"][hour, READ].sum())
"""
TABLES = """
import tables, numpy as np
with tables.open_file("p.h5", "w") as f:
    f.create_carray("/", "t2m", obj=np.random.default_rng(1).random((24, 180, 360)), chunkshape=(1, 180, 360))
with tables.open_file("p.h5") as f:
    for hour in range(24):
        float(f.root.t2m[hour, READ].sum())
"""


@pytest.mark.parametrize("library, text, code", [("netCDF4", NETCDF, "chunksizes="), ("tables", TABLES, "chunkshape=")])
def test_points_of_chunks_of_other_bindings(program: Runner, library: str, text: str, code: str) -> None:
    pytest.importorskip(library)
    # GIVEN one point of each hour's map, which is a chunk, read without h5py
    finding = only(findings_of(program.traced(text.replace("READ", "45, 90"))), "hdf5-chunk-shape")
    # THEN the finding has the bytes that the program got and those of a chunk, at the line of the reads
    itemsize = 4 if library == "netCDF4" else 8
    values = finding.evidence[0].values
    assert (values["reads"], values["asked"]) == (24, 24 * itemsize)
    assert values["chunk_bytes"] == 180 * 360 * itemsize
    assert finding.title.startswith("Reads of /t2m take ")
    assert finding.remedy is not None and finding.remedy.library == library and code in finding.remedy.after
    assert [site.line for site in finding.sites] == [10 if library == "netCDF4" else 7]
    # AND whole maps are no finding
    assert none(findings_of(program.traced(text.replace("READ", "..."), log="whole.pyio")), "hdf5-chunk-shape")


def test_a_tile_of_a_contiguous_dataset(program: Runner) -> None:
    # GIVEN tiles of 128 x 128, of which each row is a write of its own
    outcome = program.traced(
        """
        import h5py, numpy as np
        with h5py.File("c.h5", "w") as f:
            d = f.create_dataset("d", (512, 65536), "f8")
            for n in range(4):
                d[:, n * 128:(n + 1) * 128] = np.ones((512, 128))
        """
    )
    finding = only(findings_of(outcome), "hdf5-contiguous")
    # THEN as many writes as rows, and chunks of the tile's shape are advised
    assert finding.evidence[0].values["calls"] == 4 and finding.evidence[0].values["beneath"] >= 4 * 512
    assert finding.remedy is not None and "chunks=(512, 128)" in finding.remedy.after
    assert [site.line for site in finding.sites] == [6]


def test_tiny_chunks(program: Runner) -> None:
    outcome = program.traced(made("chunks=(8, 8)") + "with h5py.File('c.h5') as f:\n    f['d'][:256]\n")
    tiny = [one for one in findings_of(outcome) if one.slug == "hdf5-tiny-chunks"]
    assert {one.evidence[0].values["chunk_bytes"] for one in tiny} == {512}
    assert [one.evidence[0].values["chunks"] for one in tiny if one.sites[0].line == 6] == [32 * 64]


def test_a_flush_for_each_row(program: Runner) -> None:
    outcome = program.traced(
        made(CHUNKED)
        + """
with h5py.File("c.h5", "r+") as f:
    for n in range(30):
        f["d"][n] = 1.0
        f.flush()
"""
    )
    finding = only(findings_of(outcome), "hdf5-flush-per-item")
    assert finding.evidence[0].values["flushes"] == 30 and [site.line for site in finding.sites] == [9]


def test_a_file_opened_for_each_item(program: Runner) -> None:
    outcome = program.traced(
        made(CHUNKED)
        + """
for n in range(30):
    with h5py.File("c.h5") as f:
        f["d"][n, 0]
"""
    )
    finding = only(findings_of(outcome), "hdf5-reopen-per-item")
    # THEN they are counted, without the one that made it
    assert finding.evidence[0].values["opens"] == 30 and finding.sites[0].line == 7
    assert finding.files == [f"{program.folder}/c.h5"]


def test_hdf5_used_well(program: Runner) -> None:
    # GIVEN a dataset written whole, in sensible chunks, and read once along them
    outcome = program.traced(
        made(f"{CHUNKED}, compression='lzf'")
        + """
with h5py.File("c.h5") as f:
    d = f["d"]
    for n in range(0, 1024, 64):
        d[n:n + 64]
"""
    )
    found = findings_of(outcome)
    assert all(none(found, slug) for slug in HDF5)


@pytest.mark.parametrize(
    ("selection", "box"),
    [
        ([":", 3], ((0, 10), (3, 4))),
        (5, ((5, 6), (0, 20))),
        (-1, ((9, 10), (0, 20))),
        (["...", "2:4"], ((0, 10), (2, 4))),
        ("3:", ((3, 10), (0, 20))),
        ([], ((0, 10), (0, 20))),
        ("8:100:2", ((8, 10), (0, 20))),
        (11, None),
        ("5:2", None),
        ("-:5", None),
        ("-3:", ((7, 10), (0, 20))),
        ([1, 2, 3], None),
        ("<ndarray bool (10,)>", None),
        (True, None),
        (None, None),
        ("999999999999999999999:", None),
    ],
)
def test_boxes_around_selections(selection: object, box: object) -> None:
    assert box_of(selection, (10, 20)) == box


def test_unaligned_writes_through_hdf5(program: Runner) -> None:
    # GIVEN a hundred contiguous datasets of 132,000 bytes, which begin where the one before ends, or at blocks
    text = """
        import h5py, numpy
        with h5py.File("x.h5", "w"OPTIONS) as f:
            for n in range(100):
                f[f"d{n}"] = numpy.zeros(16_500)
    """
    finding = only(findings_of(program.traced(text.replace("OPTIONS", ""))), "unaligned-accesses")
    assert finding.remedy is not None and "alignment_threshold" in finding.remedy.after
    assert [site.line for site in finding.sites] == [5]
    aligned = text.replace("OPTIONS", ", alignment_threshold=65536, alignment_interval=4096")
    assert none(findings_of(program.traced(aligned, log="aligned.pyio")), "unaligned-accesses")


@pytest.mark.parametrize("shape", [[], [0, 3], [True, 3], ["3"], "3", None, [1 << 48], [1 << 40] * 32, [1] * 33])
def test_a_shape_that_no_dataset_has(shape: object) -> None:
    # GIVEN what a forged log may say THEN it is no shape: its elements would be counted in floats
    assert extents_of(shape) is None
    assert extents_of([1 << 20, 3]) == (1 << 20, 3)
