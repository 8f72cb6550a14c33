"""Logs of a few hundred KB in which tens of thousands of rows share texts of a MiB: what is done for each row must not
take longer for longer texts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pyio_trace.join.pack.packer import pack
from tests.fuzz import seeds

pytestmark = pytest.mark.once  # reading logs is the same on every Python

ROOT = Path(__file__).parents[2]
ROWS, LENGTH = 50_000, 1 << 20
LONG = "a" * LENGTH
#: In a process of its own with bounded memory: at 1 MiB a row, 50 GB would be needed, and minutes.
_BOUNDED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
from pyio_trace.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
_NUMBERS = np.arange(ROWS)
#: Columns of a request of a library, and of a system call.
_REQUEST: dict[str, Any] = {"layer": ["app"], "op_class": ["read"], "op_role": ["request"], "request_id": _NUMBERS + 1}
_CALL: dict[str, Any] = {"layer": ["posix"], "op_class": ["read"], "op_role": ["io"]}
_SELECTION = "[" + '"0:10",' * (LENGTH // 7) + '":"]'
_SIZES = ",".join(f'"{number * 977}": 3' for number in range(LENGTH // 14))
LOGS: dict[str, dict[str, Any]] = {
    "selections": _REQUEST | {
        "op": ["Dataset.__getitem__"], "path": ["/d/c.h5"], "site": ["/x/t.py:4:f"],
        "detail": ['{"dataset": "/d", "shape": [1000, 50], "chunks": [10, 50], "layout": "chunked", "dtype": "int8", '
                   f'"filters": ["gzip(4)"], "selection": {_SELECTION}}}'],
    },
    "loaders": {
        "op": ["DataLoader.__next__", "DataLoader.fetch"], "layer": ["app"], "op_class": ["meta"], "op_role": ["wait"],
        "detail": [f'{{"loader": "{LONG}", "epoch": 0, "batch": {number}}}' for number in range(10)],
    },
    "renames": _CALL | {
        "op": ["rename"], "op_class": ["meta"], "path": [f"/{LONG}{number}" for number in range(5)],
        "detail": [f'{{"to": "/{LONG}{number}"}}' for number in range(5)],
    },
    "sums": _CALL | {
        "op": ["read"], "calls": np.full(ROWS, 7),
        "detail": [f'{{"calls": 7, "sizes": {{"0-100": 4}}, "common_sizes": {{{_SIZES}}}}}'],
    },
    "files": _CALL | {"op": ["open", "read"], "op_class": ["open", "read"], "file": _NUMBERS + 1, "path": [f"/{LONG}"]},
}  # fmt: skip


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """LOGS as packed logs."""
    folder = tmp_path_factory.mktemp("long")
    (folder / "live").write_bytes(seeds.rich())
    pack(folder / "live", folder / "packed")
    sound = pq.read_table(folder / "packed")
    found = {}
    for name, columns in LOGS.items():
        found[name] = folder / f"{name}.parquet"
        pq.write_table(_with(sound, columns), found[name], compression="zstd")
        assert found[name].stat().st_size < LENGTH
    return found


def _with(sound: pa.Table, columns: dict[str, Any]) -> pa.Table:
    """The rows of a log again and again, with other values in some columns: in turn, if they are texts."""
    table = sound.take(pa.array(_NUMBERS % sound.num_rows))
    times = {"time": 1_700_000_000_000_000_000 + 1_000 * _NUMBERS, "id": _NUMBERS + 1, "duration": np.full(ROWS, 500)}
    plain = {"errno": np.zeros(ROWS, np.int64), "process": np.zeros(ROWS, np.int64), "parent": np.zeros(ROWS, np.int64)}
    for name, values in (times | plain | columns).items():
        field = table.schema.field(name)
        if isinstance(values, list):
            column = pa.DictionaryArray.from_arrays(pa.array(_NUMBERS % len(values), pa.int32()), pa.array(values))
        else:
            column = pa.array(values, field.type)
        table = table.set_column(table.schema.get_field_index(name), field, column)
    return table


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "command"),
    [
        *((name, command) for name in LOGS for command in ("summary --all", "insights")),
        ("selections", "view datasets"), ("loaders", "view batches"), ("sums", "counters"), ("sums", "view accesses"),
        ("files", "counters"), ("files", "files --format csv --limit 3"), ("files", "view by_file"),
        ("files", "view reuse"), ("files", "diff LOG"),
    ],
)  # fmt: skip
def test_long_texts_in_many_rows(name: str, command: str, logs: dict[str, Path]) -> None:
    # GIVEN a log whose rows share a long text WHEN a command sums it up, with little memory and time
    words = command.replace("LOG", str(logs[name])).split()
    words.insert(2 if words[0] == "view" else 1, str(logs[name]))
    done = subprocess.run(
        [sys.executable, "-c", _BOUNDED, *words], cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "2"},
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    # THEN it does
    assert (done.returncode, done.stderr[-2000:]) == (0, "")
