"""Layouts of files on Lustre: vectors made by hand from lustre_user.h, and whatever else the attribute may hold."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest

from pyio_trace.insights.finding import Finding
from pyio_trace.join.pack.packer import pack
from pyio_trace.join.sources.facade import Log
from pyio_trace.join.sources.live_source import LiveSource
from pyio_trace.join.sources.opening import open_log
from pyio_trace.log.stripes import COMPOSITE, V1, V3, Component, decoded, of_files, of_text, to_text
from tests.support.findings import findings_of, without_times
from tests.support.programs import Runner, succeeded
from tests.support.ranks import Call, findings_in, write_job

pytestmark = pytest.mark.once
MIB, END = 1 << 20, (1 << 64) - 1


def one(magic: int = V1, count: int = 2, size: int = MIB, pattern: int = 1, objects: int | None = None) -> bytes:
    """struct lov_mds_md_v1 or _v3: magic, pattern, object id, stripe size, count, generation; pool; objects."""
    head = struct.pack("<II16sIHH", magic, pattern, b"\1" * 16, size, count, 0)
    pool = b"fast".ljust(16, b"\0") if magic == V3 else b""
    return head + pool + b"\2" * 24 * ((count if count != 0xFFFF else 3) if objects is None else objects)


def composite(*parts: tuple[int, int, bytes, int]) -> bytes:
    """struct lov_comp_md_v1 with (begin, end, blob, flags) of each component."""
    offset, entries, blobs = 32 + 48 * len(parts), b"", b""
    for number, (begin, end, blob, flags) in enumerate(parts, 1):
        entries += struct.pack("<IIQQIIIQI", number, flags, begin, end, offset + len(blobs), len(blob), 0, 0, 0)
        blobs += blob
    size = offset + len(blobs)
    return struct.pack("<IIIHHH6xQ", COMPOSITE, size, 1, 0, len(parts), 0, 0) + entries + blobs


VECTORS = [
    (one(), [Component(0, None, 2, MIB)]),
    (one(V3, 8, 4 * MIB), [Component(0, None, 8, 4 * MIB)]),
    (one(V1, 0xFFFF), [Component(0, None, -1, MIB)]),
    (one(V1, 4, objects=0), [Component(0, None, 4, MIB)]),  # a folder's default has no objects
    (
        composite((0, 64 << 10, one(pattern=0x100, count=0, size=64 << 10), 0x10), (64 << 10, 1 << 30, one(), 0x10),
                  (1 << 30, END, one(V3, 16, objects=0), 0)),
        [Component(0, 64 << 10, 0, 64 << 10), Component(64 << 10, 1 << 30, 2, MIB), Component(1 << 30, None, 0, MIB)],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("raw", "expected"), VECTORS, ids=["v1", "v3", "all", "default", "composite"])
def test_vectors(raw: bytes, expected: list[Component]) -> None:
    assert decoded(raw) == expected
    assert of_text(to_text(expected)) == expected


def test_the_sizes_of_the_structures() -> None:
    assert len(one(V1, 0)) == 32 and len(one(V3, 0)) == 48
    assert len(composite((0, END, one(V1, 0), 0))) == 32 + 48 + 32


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"\xd0\x0b", one()[:31], one(V3)[:40], one(size=0), one(size=1000), one(pattern=0x77),
        one(count=9, objects=1),
        struct.pack("<I", 0x0BD70BD0) + bytes(60), bytes(70_000),
        composite((0, END, one(), 0x10))[:70], composite((10, 10, one(), 0x10)), composite((0, END, b"", 0x10)),
        composite((0, END, composite((0, END, one(), 0x10)), 0x10)),
        struct.pack("<IIIHH", COMPOSITE, 32, 1, 0, 0) + bytes(16),
        struct.pack("<IIIHH", COMPOSITE, 1 << 31, 1, 0, 0xFFFF) + bytes(16),
    ],
)  # fmt: skip
def test_what_is_no_layout(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        decoded(raw)


def test_any_bytes() -> None:
    chance = random.Random(34)
    for _ in range(20_000):
        raw = bytearray(chance.choice(VECTORS)[0])
        for _ in range(chance.randrange(1, 6)):
            raw[chance.randrange(len(raw))] = chance.randrange(256)
        del raw[chance.randrange(len(raw) + 1) :]
        try:
            found = decoded(bytes(raw))
        except ValueError:
            continue
        assert of_text(to_text(found)) == found


@pytest.mark.parametrize("text", ["", "1", "0-:x", "a-:1x1", "0-1:--1x1", "0-1:1x1 ", "0-" + "9" * 30 + ":1x1"])
def test_texts_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        of_text(text)


def test_asking(tmp_path: Path) -> None:
    # GIVEN files of which one is gone, one has another attribute, and one is on no Lustre at all
    answers = {"/l/a": one(), "/l/b": b"?"}
    # THEN those with a layout have one
    assert of_files(["/l/a", "/l/gone", "/l/b"], _ask(answers)) == {"/l/a": "0-:2x1048576"}
    here = tmp_path / "file"
    here.touch()
    assert of_files([str(here)]) == {}


def _ask(answers: dict[str, bytes]):  # type: ignore[no-untyped-def]
    def ask(path: str) -> bytes:
        if path not in answers:
            raise OSError(path)
        return answers[path]

    return ask


# ---- the finding


def found(folder: Path, monkeypatch: pytest.MonkeyPatch, layout: bytes, ranks: int, size: int) -> list[Finding]:
    calls = [
        [Call("OPEN", "/l/all.bin", 1, 1), Call("PWRITE", "/l/all.bin", 3, 100, size, rank * size)]
        for rank in range(ranks)
    ]
    write_job(folder, calls)
    monkeypatch.setattr(LiveSource, "stripes", lambda _: {"/l/all.bin": to_text(decoded(layout))})
    return findings_in(folder, "stripe-layout")


@pytest.mark.parametrize(
    ("layout", "ranks", "size", "title"),
    [
        (one(count=1), 8, 16 * MIB, "8 processes use all.bin, which is on 1 server"),
        (one(count=4), 8, 16 * MIB, None),  # two for each
        (one(count=1), 8, MIB, None),  # little
        (one(count=1), 2, 64 * MIB, None),  # few
        (one(count=8), 1, MIB, "all.bin is on 8 servers, and does not fill half of them"),
        (one(count=8), 1, 6 * MIB, None),
        (one(count=0xFFFF), 8, 16 * MIB, None),
    ],
)
def test_stripes_against_access(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: bytes, ranks: int, size: int, title: str | None
) -> None:
    titles = [one.title for one in found(tmp_path / "logs", monkeypatch, layout, ranks, size)]
    assert titles == ([] if title is None else [title])


#: Two processes that each write half of a dataset.
HALVES = """
import h5py, numpy, os
with h5py.File("x.h5", "w") as f: f.create_dataset("x", (64, 1000), chunks=CHUNKS, dtype="f8")
for rank in range(2):
    if not os.fork():
        with h5py.File("x.h5", "r+") as f:
            for n in range(32 * rank, 32 * (rank + 1), 16): f["x"][n : n + 16] = numpy.ones((16, 1000))
        os._exit(0)
    os.wait()
"""


@pytest.mark.parametrize(
    ("chunks", "stripe", "count", "crosses"),
    [
        ((16, 1000), 65536, 4, True),  # 128,000 bytes
        ((16, 1024), 65536, 4, False),  # two stripes
        ((8, 1024), 131072, 4, False),  # a half of one
        ((16, 1000), 65536, 1, False),  # on one server
    ],
)
def test_chunks_across_stripes(
    program: Runner, monkeypatch: pytest.MonkeyPatch, chunks: tuple[int, int], stripe: int, count: int, crosses: bool
) -> None:
    pytest.importorskip("h5py")
    outcome = succeeded(program.traced(HALVES.replace("CHUNKS", str(chunks)).replace("1000", str(chunks[1]))))
    layout = to_text(decoded(one(count=count, size=stripe)))
    monkeypatch.setattr(Log, "stripes", lambda _: {f"{program.folder}/x.h5": layout})
    titles = [one.title for one in findings_of(outcome, without_times()) if one.slug == "hdf5-chunks-over-stripes"]
    assert titles == (["Chunks of 125 KiB of /x lie across stripes of 64 KiB"] if crosses else [])


def test_a_packed_log_keeps_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "logs"
    found(folder, monkeypatch, one(V3, 8), 1, MIB)
    pack(folder / "rank0.pyio", tmp_path / "a.parquet")
    assert open_log(tmp_path / "a.parquet").stripes() == {"/l/all.bin": "0-:8x1048576"}
    monkeypatch.undo()
    assert open_log(folder / "rank0.pyio").stripes() == {}  # no Lustre here
