"""File names that differ in digits only become one pattern; what kind of file a path leads to."""

from __future__ import annotations

import pytest

from pyio_trace.analysis.calls.name_patterns import MANY_ENDINGS, MANY_FOLDERS, folder_of, last_names, patterns, role_of


def test_digits_become_a_star_within_a_folder() -> None:
    # GIVEN names of which two and more differ in digits only, in two folders whose names differ so too
    paths = ["/d/1/img001.npy", "/d/1/img02.npy", "/d/2/img1.npy", "/d/1/a.csv", "/d/1/b.csv", "/d/1/9.csv"]
    # THEN those of one folder are one; a name that none is like stays as it is, and so do folders
    assert patterns(paths) == {
        "/d/1/img001.npy": "/d/1/img*.npy", "/d/1/img02.npy": "/d/1/img*.npy", "/d/2/img1.npy": "/d/2/img1.npy",
        "/d/1/a.csv": "/d/1/a.csv", "/d/1/b.csv": "/d/1/b.csv", "/d/1/9.csv": "/d/1/9.csv",
    }  # fmt: skip


def test_many_folders_that_differ_in_digits() -> None:
    # GIVEN chunks of an array in as many folders as become one, beneath a folder with digits, and one fewer in another
    many = [f"/run7/a.zarr/c/{row}/{column}" for row in range(MANY_FOLDERS) for column in range(3)]
    few = [f"/run7/b.zarr/c/{row}/{column}" for row in range(1, MANY_FOLDERS) for column in range(3)]
    found = patterns([*many, *few, "/run7/a.zarr/zarr.json"])
    # THEN they are one, and the digits that all of them have stay
    assert {found[path] for path in many} == {"/run7/a.zarr/c/*/*"}
    assert {found[path] for path in few} == {f"/run7/b.zarr/c/{row}/*" for row in range(1, MANY_FOLDERS)}
    assert found["/run7/a.zarr/zarr.json"] == "/run7/a.zarr/zarr.json"


def test_the_last_names_of_a_path() -> None:
    paths = ["/d/a.zarr/c/*/*", "/d/x*.npy", "x", "", "/1/2"]
    assert [last_names(path) for path in paths] == ["c/*/*", "x*.npy", "x", "", "/1/2"]


def test_many_different_names_with_one_ending() -> None:
    # GIVEN as many names without digits as make a folder's files one, and one fewer in another folder
    letters = [chr(ord("a") + n) for n in range(MANY_ENDINGS)]
    many, few = [f"/m/{one}.jpg" for one in letters], [f"/f/{one}.jpg" for one in letters[1:]]
    found = patterns([*many, *few, "/m/notes"])
    assert {found[path] for path in many} == {"/m/*.jpg"} and found["/m/notes"] == "/m/notes"
    assert {path: found[path] for path in few} == {path: path for path in few}


def test_many_names_beneath_a_folder() -> None:
    # GIVEN as many files with one ending as become one, four in each of several folders, and one fewer beneath another
    names = [f"{folder}/{name}" for folder in "abcd" for name in ("one", "two", "three", "four")]
    assert len(names) == MANY_ENDINGS
    many, few = [f"/p/docs/{name}.md" for name in names], [f"/p/text/{name}.rst" for name in names[1:]]
    # AND in a further folder as many again, which are one by themselves
    letters = [f"/p/docs/e/{chr(ord('a') + n)}.md" for n in range(MANY_ENDINGS)]
    # AND files in different top-level folders
    apart = [f"/{chr(ord('a') + n)}/x.txt" for n in range(MANY_ENDINGS)]
    found = patterns([*many, *letters, *few, *apart, "/p/docs/a/one.png"])
    # THEN the first are one with the folder that they lie beneath, and the others stay
    assert {found[path] for path in [*many, *letters]} == {"/p/docs/**/*.md"}
    assert {path: found[path] for path in few} == {path: path for path in few}
    assert {path: found[path] for path in apart} == {path: path for path in apart}
    assert found["/p/docs/a/one.png"] == "/p/docs/a/one.png"


def test_a_deleted_file_is_like_the_others() -> None:
    found = patterns(["/dev/shm/torch_1_2", "/dev/shm/torch_3_4 (deleted)"])
    assert set(found.values()) == {"/dev/shm/torch_*_*"}


@pytest.mark.parametrize("path", ["", "/", "img1", "\n1", "/d/" + "9" * 5000, "/ü/1", "/d/.1"])
def test_any_text_is_a_path(path: str) -> None:
    assert patterns([path]) == {path: path}
    assert role_of(path) == "data"


@pytest.mark.parametrize(
    ("path", "role"),
    [
        ("/dev/shm/torch_1_2_3", "shared-memory"), ("/memfd:x (deleted)", "shared-memory"), ("/dev/null", "device"),
        ("/proc/self/stat", "device"), ("/tmp/#1234 (deleted)", "temporary"), ("/tmp/tmpab12_x3z/x.bin", "temporary"),
        ("/tmp/pytest-1/run/data.bin", "data"), ("/home/u/usr/x", "data"), ("/usr/share/zoneinfo/UTC", "library"),
        ("/v/lib/python3.11/site-packages/torch/x.py", "library"), ("/d/__pycache__/x.cpython-311.pyc", "library"),
    ],
)  # fmt: skip
def test_roles(path: str, role: str) -> None:
    assert role_of(path) == role


def test_folders() -> None:
    assert [folder_of(path) for path in ("/d/x", "/x", "x", "")] == ["/d/", "/", "", ""]
