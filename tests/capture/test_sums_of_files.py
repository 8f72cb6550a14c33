"""What a profile says of files and places, compared with records of the same program."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.support.programs import Runner, succeeded

#: Ways to make a file of its own for each n; most file systems give each the inode of the one before.
MAKES = {
    "nameless": "file = tempfile.TemporaryFile(dir=folder); file.write(data); file.close()",
    "named": "file = tempfile.NamedTemporaryFile(dir=folder); file.write(data); file.close()",
    "removed": "file = open(f'{folder}/{n}', 'wb'); file.write(data); file.close(); os.unlink(f'{folder}/{n}')",
    "renamed": (
        "file = open(f'{folder}/{n}', 'wb'); file.write(data); file.close(); "
        "os.rename(f'{folder}/{n}', f'{folder}/b{n}'); file = open(f'{folder}/b{n}', 'ab'); file.write(b'x'); "
        "file.close(); os.unlink(f'{folder}/b{n}')"
    ),
    "removed while open": (
        "fd, name = tempfile.mkstemp(dir=folder); os.unlink(name); os.write(fd, data); copy = os.dup(fd); os.close(fd)"
        "; os.write(copy, b'x'); os.close(copy)"
    ),
}


@pytest.mark.once
@pytest.mark.parametrize("way", MAKES)
def test_files_that_used_one_inode(program: Runner, way: str) -> None:
    # GIVEN five files one after the other WHEN only sums are kept
    with TemporaryDirectory(dir=program.folder) as folder:
        head = f"import os, tempfile\nfolder = {folder!r}\nfor n in range(1, 6):\n    data = b'x' * 1000 * n\n    "
        outcome = succeeded(program.traced(head + MAKES[way] + "\n", env={"PYIO_TRACE_MODE": "profile"}))
    # THEN each is a file of its own
    written: dict[int, int] = {}
    for row in outcome.select(op="write", layer="posix"):
        if (row["path"] or "").startswith(folder):
            written[row["file"]] = written.get(row["file"], 0) + row["bytes_moved"]
    assert sorted(size // 1000 for size in written.values()) == [1, 2, 3, 4, 5]


SEEKS = """
with open("data", "wb") as file:
    file.write(bytes(400_000))
for back in (0, 256):
    with open("data", "rb") as file:
        file.read(100)
        file.seek(back)
        file.readinto(bytearray(400_000))
with open("data", "r+b") as file:
    file.read(10)
    file.seek(50)
    file.write(b"x")
"""


@pytest.mark.once
def test_a_seek_within_the_buffer_moves_no_position(program: Runner, tmp_path: Path) -> None:
    # GIVEN a program whose file objects seek WHEN records and sums are kept
    read, written = {}, {}
    for mode in ("trace", "profile"):
        outcome = succeeded(program.traced(SEEKS, env={"PYIO_TRACE_MODE": mode}))
        rows = outcome.select(op=("read", "write"), layer="posix", path=tmp_path / "data")
        ends: dict[str, list[int]] = {"read": [], "write": []}
        for row in rows:
            detail = json.loads(row["detail"]) if mode == "profile" else {}
            end = detail.get("highest") if mode == "profile" else row["file_offset"] + row["bytes_moved"]
            ends[row["op"]].append(end)
        read[mode], written[mode] = max(ends["read"]), max(ends["write"])
    # THEN both know the same places
    assert read == {"trace": 400_000, "profile": 400_000}
    assert written["trace"] == written["profile"]
