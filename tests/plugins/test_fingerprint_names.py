"""The names of files in fingerprints."""

from __future__ import annotations

import pytest

from pyio_trace.globs import path_matcher
from pyio_trace_plugins.pytest.names import Names

FOLDERS = {
    "/usr": None, "/dev": None, "/home/me/.venv/lib/python3.11/site-packages": None, "/home/me/p/.venv": None,
    "/home/me": "{home}", "/home/me/p": "", "/tmp": "{tempdir}", "/tmp/pytest-of-me/pytest-3": "{basetemp}",
}  # fmt: skip
TMP_PATH = "/tmp/pytest-of-me/pytest-3/popen-gw0/test_x0"
NAMED = {
    f"{TMP_PATH}/part17.h5": "{tmp}/part*.h5",
    f"{TMP_PATH}": "{tmp}",
    f"{TMP_PATH}/run-2026-11-23/tmpab12_x9z.csv": "{tmp}/run-*-*-*/tmp*.csv",
    f"{TMP_PATH}/c/0f8fad5b-d9cb-469f-a165-70867728950e/x.mp3": "{tmp}/c/*/x.mp3",
    f"{TMP_PATH}/facade/deadbeef.bin": "{tmp}/facade/*.bin",
    f"{TMP_PATH}/log.1": "{tmp}/log.*",
    f"{TMP_PATH}0/x": "{basetemp}/popen-gw*/test_x*/x",
    "/tmp/pytest-of-me/pytest-3/data0/x": "{basetemp}/data*/x",
    "/tmp/prefix-ab12cd34.csv": "{tempdir}/*.csv",
    "/tmp/tmpab12cd34/in/x2.txt": "{tempdir}/*/in/x*.txt",
    "/tmp/#2148741 (deleted)": "{tempdir}/*",
    "/home/me/p/tests/data/x.npy": "tests/data/x.npy",
    "/home/me/p": ".",
    "/home/me/data/x": "{home}/data/x",
    "/data/x": "/data/x",
}
LEFT_OUT = [
    "/usr/share/zoneinfo/UTC", "/usr", "/dev/shm/psm_1", "/home/me/.venv/lib/python3.11/site-packages/a.json",
    "/home/me/p/.venv/lib/a.json", "/home/me/.cache/x", "/home/me/p/.git/HEAD", "/home/me/p/a/__pycache__/b.pyc",
    "/home/me/p/.coverage.host.12.ab", "/home/me/p/x.lock", "/home/me/p/.hypothesis/a/b",
]  # fmt: skip


@pytest.mark.parametrize(("path", "name"), [*NAMED.items(), *((path, None) for path in LEFT_OUT)])
def test_name(path: str, name: str | None) -> None:
    # GIVEN folders of a project, of its machine and of pytest, and an ignored pattern
    names = Names(FOLDERS, [path_matcher("*.lock")])
    # WHEN a file is named THEN what differs from run to run is not in the name
    assert names.of(path, TMP_PATH) == name


def test_workers_and_runs_do_not_differ() -> None:
    # GIVEN the same file of a factory's folder, in different runs and workers
    runs = [
        ("/tmp/pytest-of-me/pytest-3", "/tmp/pytest-of-me/pytest-3/data0/x"),
        ("/tmp/pytest-of-me/pytest-812/popen-gw1", "/tmp/pytest-of-me/pytest-812/popen-gw1/data4/x"),
    ]
    # WHEN it is named THEN the name is one
    assert {Names({"/tmp": "{tempdir}", base: "{basetemp}"}).of(path) for base, path in runs} == {"{basetemp}/data*/x"}
