"""tarfile: members, and passes over a compressed archive."""

from __future__ import annotations

import json

from tests.support.programs import Runner, alike, succeeded

MADE = """
import io, os, shutil, tarfile
def make(path, mode):
    with tarfile.open(path, mode) as archive:
        for n in range(4):
            member = tarfile.TarInfo(f"d/{n}")
            member.size = 200_000 + n
            archive.addfile(member, io.BytesIO(os.urandom(member.size)))
"""


def test_members_out_of_order(program: Runner) -> None:
    # GIVEN a compressed archive whose members are read from the last to the first, and then all extracted
    text = (
        MADE
        + """
make("made.tar.gz", "w:gz")
with tarfile.open("made.tar.gz") as archive:
    for n in (3, 2, 1, 0):
        print(len(archive.extractfile(f"d/{n}").read()))
shutil.unpack_archive("made.tar.gz", "out")
"""
    )
    outcome = alike(succeeded(program.traced(text)), program.bare(text))
    path = program.folder / "made.tar.gz"
    added = outcome.select(op="TarFile.addfile", path=path)
    names = [f"d/{n}" for n in range(4)]
    sizes = [200_000 + n for n in range(4)]
    # THEN each member is a row with its bytes
    assert [json.loads(row["detail"]) for row in added] == [{"member": name} for name in names]
    assert [row["bytes_moved"] for row in added] == sizes
    asked = outcome.select(op="TarFile.extractfile", path=path)
    assert [json.loads(row["detail"])["member"] for row in asked] == names[::-1]
    extracted = outcome.select(op="TarFile.extract", path=path)
    assert [json.loads(row["detail"])["member"] for row in extracted] == names
    assert [row["bytes_moved"] for row in extracted] == sizes
    assert sum(row["bytes_moved"] for row in outcome.select(op="_FileInFile.read")) == sum(sizes)
    (scan,) = outcome.select(op="TarFile.getmembers", path=path)
    assert json.loads(scan["detail"]) == {"members": 4}
    # AND the archive was passed once to find them, and once more for each; then once in order
    closings = [json.loads(row["detail"]) for row in outcome.select(op="GzipFile.close", path=path)]
    assert [one.get("passes") for one in closings] == [None, 5, 1]
    assert closings[1]["out"] > sum(sizes) + sum(sum(sizes[: n + 1]) for n in range(4))
    moved = sum(row["bytes_moved"] for row in outcome.select(op="_GzipReader.read"))
    assert moved == closings[1]["out"] + closings[2]["out"]
    # AND each byte that was written from it is beneath such a row
    for n in range(4):
        wrote = outcome.select(layer="posix", op="write", path=program.folder / "out" / "d" / str(n))
        assert sum(row["bytes_moved"] for row in wrote) == sizes[n]
        assert all("TarFile.extract" in [parent["op"] for parent in outcome.parents(row)] for row in wrote)


def test_streams_folders_links_and_errors(program: Runner) -> None:
    # GIVEN a stream that cannot seek, an archive with a folder and a link, one in memory, and a member that is missing
    text = (
        MADE
        + """
make("made.tar.bz2", "w|bz2")
with tarfile.open("made.tar.bz2", "r|*") as archive:
    for member in archive:
        archive.extract(member, "stream", **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
if not os.path.lexists("stream/d/link"):
    os.symlink("0", "stream/d/link")
with tarfile.open("tree.tar", "w") as archive:
    archive.add("stream/d", "d")
with tarfile.open("tree.tar") as archive:
    print(sorted(archive.getnames()))
    print(archive.extractfile("d"), len(archive.extractfile("d/link").read()))
    try:
        archive.extractfile("none")
    except KeyError as problem:
        print(problem)
memory = io.BytesIO()
with tarfile.open(fileobj=memory, mode="w") as archive:
    archive.addfile(tarfile.TarInfo("x"))
"""
    )
    outcome = alike(succeeded(program.traced(text)), program.bare(text))
    # THEN files are rows with their bytes; what is small or has no data is none when it is added
    extracted = outcome.select(op="TarFile.extract", path=program.folder / "made.tar.bz2")
    assert [row["bytes_moved"] for row in extracted] == [200_000 + n for n in range(4)]
    added = {
        json.loads(row["detail"])["member"]: row["bytes_moved"]
        for row in outcome.select(op="TarFile.addfile", path=program.folder / "tree.tar")
    }
    assert added == {f"d/{n}": 200_000 + n for n in range(4)}
    assert not outcome.select(op="TarFile.addfile", path=None)
    missing = outcome.select(op="TarFile.extractfile")[-1]
    assert json.loads(missing["detail"]) == {"member": "none", "raised": "KeyError"}
