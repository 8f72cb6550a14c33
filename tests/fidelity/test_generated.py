"""Generated programs: every row of the log is what the model says (tests/fidelity/machine.py).

`tox -e soak` searches longer, among other programs each time.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test

import pyio_trace
from tests.fidelity.machine import TRACED, Programs, check, compare_rows, of_steps, run_steps
from tests.fidelity.model import Model
from tests.support.soak import SOAK, rounds


def _settings(examples: int) -> settings:
    return settings(
        max_examples=examples, stateful_step_count=40, deadline=None, derandomize=not SOAK,
        suppress_health_check=list(HealthCheck), database=None, print_blob=SOAK, report_multiple_bugs=False,
        phases=list(Phase) if SOAK else [Phase.generate],  # each attempt to shrink one is two programs
    )  # fmt: skip


def test_programs() -> None:
    run_state_machine_as_test(Programs, settings=_settings(12))


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.timeout(0 if SOAK else 600)
def test_more_programs() -> None:
    run_state_machine_as_test(Programs, settings=_settings(rounds(24, 5000)))


NEW = os.O_CREAT | os.O_EXCL | os.O_RDWR
APPEND = os.O_RDWR | os.O_APPEND

#: What the search has found, and what it was made to find; slots are numbered as they are opened.
FOUND: dict[str, list[tuple[Any, ...]]] = {
    "a write of nothing is no append": [
        ("open", "a", NEW | os.O_APPEND), ("write", 1, 5), ("lseek", 1, 0, 0), ("write", 1, 0), ("read", 1, 3),
    ],
    "a rename to its own name": [
        ("open", "a", NEW), ("write", 1, 5), ("rename", "a", "a"), ("open", "a", os.O_RDWR), ("read", 2, 3),
    ],
    "a failed append": [
        ("open", "a", NEW | os.O_APPEND), ("write", 1, 5), ("open", "a", os.O_RDONLY | os.O_APPEND), ("read", 2, 2),
        ("write", 2, 2), ("read", 2, 2),
    ],
    "pwrite appends": [
        ("open", "a", NEW | os.O_APPEND), ("write", 1, 5), ("pwrite", 1, 3, 0), ("write", 1, 2),
        ("pwrite", 1, 3, 100), ("write", 1, 2),
    ],
    "reserved blocks": [
        ("open", "a", NEW | os.O_APPEND), ("write", 1, 5), ("posix_fallocate", 1, 10, 100), ("write", 1, 2),
    ],
    "a copy to a place": [
        ("open", "a", NEW | os.O_APPEND), ("open", "a", os.O_RDWR), ("open", "b", NEW), ("write", 3, 50),
        ("write", 1, 5), ("copy_file_range", 3, 2, 20, 0, 30), ("write", 1, 2),
    ],
    "a copy of nothing to a place": [
        ("open", "a", NEW | os.O_APPEND), ("open", "a", os.O_RDWR), ("open", "b", NEW), ("write", 1, 5),
        ("copy_file_range", 3, 2, 20, None, 30), ("write", 1, 2),
    ],
    "a copy to the position": [
        ("open", "a", NEW | os.O_APPEND), ("open", "a", os.O_RDWR), ("open", "b", NEW), ("write", 3, 50),
        ("write", 1, 5), ("copy_file_range", 3, 2, 20, 0, None), ("write", 1, 2), ("sendfile", 2, 3, 0, 30),
        ("write", 1, 2),
    ],
    "another name truncated": [
        ("open", "a", NEW | os.O_APPEND), ("write", 1, 4), ("link", "a", "b"), ("truncate", "b", 9), ("write", 1, 4),
    ],
    "a name that is another file's now": [
        ("open", "a", NEW | os.O_APPEND), ("write", 1, 4), ("rename", "a", "b"), ("open", "a", NEW), ("write", 2, 40),
        ("truncate", "a", 33), ("write", 1, 4), ("truncate", "b", 7), ("write", 1, 4),
    ],
    "a number that is another file's now": [
        ("open", "a", NEW | os.O_APPEND), ("write", 1, 4), ("unlink", "a"), ("close", 1),
        ("open", "a", os.O_CREAT | APPEND), ("write", 2, 4),
    ],
    "a seek beyond the end": [
        ("open", "a", os.O_CREAT | APPEND), ("write", 1, 4), ("lseek", 1, 5, os.SEEK_END), ("write", 1, 4),
        ("lseek", 1, -3, os.SEEK_END), ("write", 1, 4), ("lseek", 1, 0, os.SEEK_END), ("write", 1, 4),
    ],
    "beyond 32 bits": [
        ("open", "a", NEW | os.O_APPEND), ("ftruncate", 1, 1 << 33), ("write", 1, 4), ("write", 1, 4),
        ("lseek", 1, -4, os.SEEK_END), ("read", 1, 100),
    ],
    "files whose descriptors others took, of one name one after the other": [
        ("open", "b", NEW), ("open", "c", NEW), ("dup2", 3, 2, 1), ("unlink", "b"), ("open", "b", NEW),
        ("open", "c", os.O_RDWR), ("dup2", 6, 2, 4), ("close", 5),
    ],
    "a copy that was closed by another taking its place": [
        ("open", "a", NEW), ("dup", 2, 1), ("unlink", "a"), ("dup", 3, 2), ("dup2", 4, 1, 2), ("close", 1),
        ("open", "a", os.O_CREAT | os.O_RDONLY), ("close", 3),
    ],
}  # fmt: skip


def run_found(name: str, folder: Path) -> Model:
    model = Model()
    steps, answers = [], []
    for op, *args in FOUND[name]:
        given_args = [model.slot(), *args] if op == "open" else args
        if op in ("dup", "dup2"):
            model.slot()
        answers.append(getattr(model, op)(*given_args))
        steps.append(["main", op, *given_args])
    for slot in sorted(model.handles):
        answers.append(model.close(slot))
        steps.append(["main", "close", slot])
    check(steps, answers, model.rows, folder)
    return model


@pytest.mark.parametrize("name", FOUND)
def test_found(name: str, tmp_path: Path) -> None:
    run_found(name, tmp_path)


def test_a_wrong_row_is_noticed(tmp_path: Path) -> None:
    model = run_found("a copy to the position", tmp_path)
    rows = of_steps(pyio_trace.open(tmp_path / "run.pyio").operations().to_pylist())
    descriptors = {1: 3, 2: 4, 3: 5}
    compare_rows(rows, model.rows, descriptors, str(tmp_path / "traced"))
    wrong: list[tuple[str, str, Any]] = [
        ("write", "file_offset", 3), ("write", "bytes_requested", 3), ("sendfile", "bytes_moved", 3),
        ("close", "path", "/elsewhere"),
        ("write", "fd", 9), ("write", "errno", 5), ("write", "op", "pwrite"), ("close", "file", 99),
        ("open", "tid", 1), ("copy_file_range", "detail", '{"to": "/elsewhere"}'), ("write", "process", 7),
    ]  # fmt: skip
    for op, column, value in wrong:
        at = next(number for number, row in reversed(list(enumerate(rows))) if row["op"] == op)
        forged = [row | {column: value} if number == at else row for number, row in enumerate(rows)]
        with pytest.raises(AssertionError):
            compare_rows(forged, model.rows, descriptors, str(tmp_path / "traced"))
    for forged in (rows[1:], rows[1:2] + rows[:1] + rows[2:]):
        with pytest.raises(AssertionError):
            compare_rows(forged, model.rows, descriptors, str(tmp_path / "traced"))


KINDS = [
    ("rb", -1), ("rb", 0), ("wb", -1), ("wb", 0), ("r+b", -1), ("w+b", 100), ("ab", -1), ("a+b", -1), ("r", -1),
    ("w", -1), ("w", 1), ("xb", 7),
]  # fmt: skip
READS = ("read", "readline", "lines", "readall", "readinto", "read1", "__next__")


@st.composite
def file_programs(draw: st.DrawFn) -> list[list[Any]]:
    """Steps on some file objects, each of a file of its own."""
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=4))
    steps: list[list[Any]] = []
    for slot, (mode, buffering) in enumerate(kinds):
        if "x" not in mode:
            fill = "ftruncate" if mode == "r" else "write"  # not all bytes are text
            steps += [["main", "open", 100 + slot, f"f{slot}", NEW], ["main", fill, 100 + slot, 9000],
                      ["main", "close", 100 + slot]]  # fmt: skip
        steps.append(["main", "file.file", slot, f"f{slot}", mode, buffering])
    counts = st.integers(0, 60) | st.sampled_from([5000, 20_000])
    each = st.tuples(st.integers(0, len(kinds) - 1), st.integers(0, 5), counts)
    for slot, op, n in draw(st.lists(each, max_size=40)):
        mode = kinds[slot][0]
        reads, writes = "r" in mode or "+" in mode, mode not in ("r", "rb")
        where = draw(st.sampled_from(["main", "main", "thread"]))
        if op < 3 and writes:
            steps.append([where, "file.write", slot, n])
        elif op < 4 and reads:
            steps.append([where, "file.lines", slot] if n % 3 == 0 else
                         [where, ["file.read", "file.readline"][n % 2], slot, n])  # fmt: skip
        elif op == 4 and "b" in mode:
            steps.append([where, "file.seek", slot, n])
        elif op == 5:
            steps.append([where, "file.flush", slot])
    return steps + [["main", "file.close", slot] for slot in range(len(kinds))]


@pytest.mark.parametrize("examples", [8, pytest.param(80, marks=pytest.mark.slow)])
def test_file_objects(examples: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    @_settings(examples)
    @given(file_programs())
    def search(steps: list[list[Any]]) -> None:
        folder = tmp_path_factory.mktemp("files")
        (folder / "steps.json").write_text(json.dumps(steps))
        told = run_steps(folder, "bare", {})
        assert run_steps(folder, "traced", TRACED) == told
        rows = pyio_trace.open(folder / "run.pyio").operations().to_pylist()
        for slot in range(sum(op == "file.file" for _, op, *_ in steps)):
            compare_object([row for row in rows if row["path"] == f"{folder}/traced/f{slot}"], slot, steps, told)

    search()


def compare_object(rows: list[dict[str, Any]], slot: int, steps: list[list[Any]], told: list[Any]) -> None:
    """What the program asked of one file object, and what went to and from its file."""
    mine = [(op[5:], said) for (_, op, *args), said in zip(steps, told, strict=True)
            if op.startswith("file.") and args[0] == slot]  # fmt: skip
    app = [row for row in rows if row["layer"] == "app"]
    assert not [said for _, said in mine if isinstance(said, str)]
    written = [said for op, said in mine if op == "write"]
    read = [said for op, said in mine if op in ("read", "readline", "lines")]
    rows_written = [row for row in app if row["op"].endswith(".write")]
    rows_read = [row for row in app if row["op"].rpartition(".")[2] in READS]
    assert sum(row["bytes_moved"] for row in rows_written) == sum(written)
    assert sum(row["calls"] for row in rows_written) == len(written)
    assert sum(row["bytes_moved"] for row in rows_read) == sum(read)
    assert sum(row["calls"] for row in rows_read) >= len(read)
    assert [row["op"] for row in app if row["op"].endswith("open")] == ["open"]
    assert sum(row["op"].endswith(".close") for row in app) == 1
    posix = [row for row in rows if row["layer"] == "posix" and row["parent"] is not None]
    assert sum(row["bytes_moved"] for row in posix if row["op"] == "write") == sum(written)
    assert {row["parent"] for row in posix} <= {row["id"] for row in app}
