"""zipfile: members, their bytes, and how often one was begun again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.programs import Outcome, Runner, alike, succeeded


def members(outcome: Outcome, path: Path, op: str = "ZipExtFile.close") -> list[dict[str, Any]]:
    return [json.loads(row["detail"]) for row in outcome.select(layer="app", op=op, path=path)]


def test_members_read_and_written(program: Runner) -> None:
    # GIVEN an archive with a packed and a stored member, read whole, by lines, extracted, and from places before
    text = """
    import io, shutil, zipfile
    data = b"".join(b"line %06d\\n" % n for n in range(20_000))
    with zipfile.ZipFile("made.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("packed", data)
        archive.writestr("stored", data, zipfile.ZIP_STORED)
    with zipfile.ZipFile("made.zip") as archive:
        assert archive.read("packed") == data
        with archive.open("packed") as file:
            assert sum(map(len, file)) == len(data)
        archive.extract("stored", "out")
        with archive.open("packed") as file:
            file.read(150_000)
            file.seek(10)
            file.seek(8, 1)     # in the buffer, or forwards
            file.read(2)
            file.seek(-20, 1)
            file.seek(-5, 2)
            try:
                file.seek(0, 9)
            except ValueError as problem:
                print(problem)
            print(file.read())
            file.seek(0)
            print(len(file.read()))
    shutil.unpack_archive("made.zip", "all")
    with zipfile.ZipFile(io.BytesIO(open("made.zip", "rb").read())) as archive:
        print(len(archive.read("packed")))
    """
    outcome = alike(succeeded(program.traced(text)), program.bare(text))
    path = program.folder / "made.zip"
    # THEN each member has a row with what went in or came out
    assert members(outcome, path, "_ZipWriteFile.close") == [
        {"member": "packed", "in": 240_000}, {"member": "stored", "in": 240_000},
    ]  # fmt: skip
    once = {"out": 240_000, "passes": 1}
    *read, sought, unpacked, unpacked_stored = members(outcome, path)
    assert read == [
        {**once, "member": "packed"}, {**once, "member": "packed"}, {**once, "member": "stored"},
    ]  # fmt: skip
    assert [unpacked, unpacked_stored] == [{**once, "member": "packed"}, {**once, "member": "stored"}]
    # AND begins again twice where the program went back beyond the buffer, of which the reads have the same bytes
    again = members(outcome, path, "ZipExtFile.seek")
    assert [(one["member"], one["pass"]) for one in again] == [("packed", 2), ("packed", 3)]
    assert (sought["passes"], sought["member"]) == (3, "packed")
    moved = sum(row["bytes_moved"] for row in outcome.select(op="ZipExtFile._read1"))
    assert sought["out"] == moved - 6 * 240_000
    assert sought["out"] >= 150_000 + 2 * 240_000


def test_arrays_and_applications(program: Runner) -> None:
    # GIVEN arrays in an archive, a member that is opened and dropped, and an application made by zipapp
    pytest.importorskip("numpy")
    text = """
    import os, zipapp, zipfile
    import numpy
    numpy.savez_compressed("a.npz", x=numpy.zeros(30_000))
    with numpy.load("a.npz") as archive:
        print(archive["x"].shape)
    with zipfile.ZipFile("a.npz") as archive:
        member = archive.open("x.npy")
        del member
    os.mkdir("app")
    with open("app/__main__.py", "w") as file:
        file.write("pass;" * 20_000)
    with open("app/small.py", "w") as file:
        file.write("pass")
    zipapp.create_archive("app", "app.pyz")
    with zipfile.ZipFile("app.pyz") as archive:
        print(archive.read("small.py"))
    """
    outcome = succeeded(program.traced(text))
    # THEN they are members like others
    assert members(outcome, program.folder / "a.npz", "_ZipWriteFile.close") == [{"member": "x.npy", "in": 240_128}]
    assert members(outcome, program.folder / "a.npz") == [
        {"out": 240_128, "passes": 1, "member": "x.npy"}, {"out": 0, "passes": 1, "member": "x.npy"},
    ]  # fmt: skip
    # AND small ones have no row for their end, but the bytes that came out
    app = program.folder / "app.pyz"
    assert members(outcome, app, "_ZipWriteFile.close") == [{"member": "__main__.py", "in": 100_000}]
    assert members(outcome, app) == []
    assert outcome.select(op="ZipExtFile._read1")[-1]["bytes_moved"] == 4
