"""Generates random programs step by step with the model, runs them, and compares their logs with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

import pyio_trace
from tests.fidelity.model import ANY, EXACT, Model
from tests.fidelity.model import Row as Expected
from tests.support.programs import TIMEOUT, clean_environment
from tests.support.surroundings import file_system

Row = dict[str, Any]
TRACED = {"PYIO_TRACE": "1", "PYIO_TRACE_QUIET": "1"}
STEPS = Path(__file__).with_name("steps.py")
NAMES = st.sampled_from(["a", "b", "c", "d"])
COUNTS = st.integers(0, 40) | st.sampled_from([4096, 100_000])
PLACES = st.integers(0, 60) | st.sampled_from([5000, 1 << 33])
VECTORS = st.lists(st.integers(0, 30), min_size=1, max_size=3)
WHERE = st.sampled_from(["main", "main", "main", "thread"])
FLAGS = st.tuples(
    st.sampled_from([os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_RDWR]),
    st.sampled_from([os.O_CREAT, os.O_CREAT, 0]),
    st.sampled_from([0, 0, os.O_TRUNC]),
    st.sampled_from([0, 0, os.O_EXCL]),
    st.sampled_from([0, os.O_APPEND]),
)
PICK = st.integers(0, 1 << 20)
#: Operations on one descriptor: strategies of their further arguments.
ON_ONE: dict[str, tuple[st.SearchStrategy[Any], ...]] = {
    "read": (COUNTS,), "write": (COUNTS,), "readv": (VECTORS,), "writev": (VECTORS,), "pread": (COUNTS, PLACES),
    "pwrite": (COUNTS, PLACES), "preadv": (VECTORS, PLACES), "pwritev": (VECTORS, PLACES), "fstat": (),
    "lseek": (st.integers(-30, 60), st.sampled_from([os.SEEK_SET, os.SEEK_CUR, os.SEEK_END])),
    "ftruncate": (PLACES,), "posix_fallocate": (st.integers(0, 60), st.integers(1, 5000)),
}  # fmt: skip


class Programs(RuleBasedStateMachine):
    """The rules make a program's steps; its end runs it untraced and traced."""

    def __init__(self) -> None:
        super().__init__()
        self.worlds: list[Model] = []
        self.programs: list[list[Any]] = [[]]
        self.answers: list[list[Any]] = [[]]

    @property
    def world(self) -> Model:
        return self.worlds[-1]

    @initialize(size=COUNTS, appends=st.sampled_from([0, os.O_APPEND]))
    def begin(self, size: int, appends: int) -> None:
        self.worlds = [Model()]
        for name in ("a", "b"):
            self._step("main", "open", self.world.slot(), name, os.O_CREAT | os.O_EXCL | os.O_RDWR)
        self._step("main", "open", self.world.slot(), "a", os.O_RDWR | appends)
        self._step("main", "write", 1, size)

    def _step(self, where: str, op: str, *args: Any) -> None:
        self.world.thread = where == "thread"
        answer = getattr(self.world, op)(*args)
        self.programs[-1].append([where, op, *args])
        self.answers[-1].append(answer)

    def _slot(self, pick: int, without: int | None = None) -> int | None:
        """Some open descriptor."""
        there = sorted(self.world.handles.keys() - {without})
        return there[pick % len(there)] if there else None

    @rule(where=WHERE, name=NAMES, flags=FLAGS)
    def opens(self, where: str, name: str, flags: tuple[int, ...]) -> None:
        if flags[0] == os.O_RDONLY and flags[2]:  # not defined by POSIX
            return
        self._step(where, "open", self.world.slot(), name, sum(flags))

    @rule(where=WHERE, op=st.sampled_from(sorted(ON_ONE)), pick=PICK, data=st.data())
    def on_one(self, where: str, op: str, pick: int, data: st.DataObject) -> None:
        slot = self._slot(pick)
        if slot is not None:
            self._step(where, op, slot, *(data.draw(argument) for argument in ON_ONE[op]))

    @rule(where=WHERE, pick=PICK)
    def dups(self, where: str, pick: int) -> None:
        source = self._slot(pick)
        if source is not None:
            self._step(where, "dup", self.world.slot(), source)

    @rule(where=WHERE, pick=PICK, other=PICK)
    def dups_over(self, where: str, pick: int, other: int) -> None:
        source = self._slot(pick)
        over = self._slot(other, without=source)
        if source is not None and over is not None:
            self._step(where, "dup2", self.world.slot(), source, over)

    @rule(where=WHERE, pick=PICK)
    def closes(self, where: str, pick: int) -> None:
        slot = self._slot(pick)
        if slot is not None:
            self._step(where, "close", slot)

    @rule(where=WHERE, op=st.sampled_from(["rename", "link"]), name=NAMES, to=NAMES)
    def names(self, where: str, op: str, name: str, to: str) -> None:
        self._step(where, op, name, to)

    @rule(where=WHERE, op=st.sampled_from(["unlink", "stat"]), name=NAMES)
    def name(self, where: str, op: str, name: str) -> None:
        self._step(where, op, name)

    @rule(where=WHERE, name=NAMES, length=PLACES)
    def truncates(self, where: str, name: str, length: int) -> None:
        self._step(where, "truncate", name, length)

    @rule(where=WHERE, pick=PICK, length=st.integers(3, 5000), page=st.sampled_from([0, 0, 4096]))
    def maps(self, where: str, pick: int, length: int, page: int) -> None:
        slot = self._slot(pick)
        if slot is not None and self.world.can_map(slot, length, page):
            self._step(where, "map", slot, length, page)

    @rule(where=WHERE, pick=PICK, other=PICK, count=COUNTS, given=st.none() | st.integers(0, 50))
    def sends(self, where: str, pick: int, other: int, count: int, given: int | None) -> None:
        pair = self._pair(pick, other)
        if pair is not None:
            self._step(where, "sendfile", pair[1], pair[0], given, count)

    @rule(where=WHERE, pick=PICK, other=PICK, count=COUNTS, given=st.none() | st.integers(0, 50),
          at=st.none() | st.integers(0, 50))  # fmt: skip
    def copies(self, where: str, pick: int, other: int, count: int, given: int | None, at: int | None) -> None:
        pair = self._pair(pick, other)
        if pair is not None:
            self._step(where, "copy_file_range", *pair, count, given, at)

    def _pair(self, pick: int, other: int) -> tuple[int, int] | None:
        """Descriptors of two files."""
        source = self._slot(pick)
        if source is None:
            return None
        handles = self.world.handles
        others = [slot for slot in sorted(handles) if handles[slot].description.file
                  is not handles[source].description.file]  # fmt: skip
        return (source, others[other % len(others)]) if others else None

    @precondition(lambda self: len(self.worlds) < 3)
    @rule()
    def forks(self) -> None:
        child: list[Any] = []
        self.programs[-1].append(["main", "fork", child])
        told: list[Any] = []
        self.answers[-1].append(["exit", 0, told])
        self.worlds.append(self.world.forked())
        self.programs.append(child)
        self.answers.append(told)

    @precondition(lambda self: len(self.worlds) > 1)
    @rule()
    def child_ends(self) -> None:
        self._close_all()
        self.worlds.pop()
        self.programs.pop()
        self.answers.pop()

    def _close_all(self) -> None:
        """Closes everything: the core learns a file's identity at its close; otherwise the log has only the path."""
        for slot in sorted(self.world.handles):
            self._step("main", "close", slot)

    def teardown(self) -> None:
        if not self.worlds:
            return
        while len(self.worlds) > 1:
            self.child_ends()
        self._close_all()
        note(json.dumps(self.programs[0]))
        with tempfile.TemporaryDirectory(prefix="pyio-steps-") as folder:
            check(self.programs[0], self.answers[0], self.world.rows, Path(folder))


def check(steps: list[Any], answers: list[Any], expected: list[Expected], folder: Path) -> None:
    """Runs the steps untraced and traced; the model, the two runs and the log must agree."""
    (folder / "steps.json").write_text(json.dumps(steps))
    untraced = run_steps(folder, "bare", {})
    traced = run_steps(folder, "traced", TRACED)
    assert json.dumps(traced) == json.dumps(untraced), "the program does something else when it is traced"
    _same_answers(untraced, answers)
    descriptors = _descriptors(steps, traced)
    log = pyio_trace.open(folder / "run.pyio")
    estimates = ["mapped_", "mappings_"]
    if file_system(folder) == "overlayfs":
        estimates.append("unseen_")  # it counts the bytes of copy_file_range twice
    lost = {name: what for name, what in log.losses().items() if not name.startswith(tuple(estimates))}
    assert lost == {}, lost
    compare_rows(of_steps(log.operations().to_pylist()), expected, descriptors, str(folder / "traced"))


def run_steps(folder: Path, name: str, variables: dict[str, str]) -> list[Any]:
    (folder / name).mkdir()
    results = folder / f"{name}.json"
    words = [sys.executable, "-W", "ignore", str(STEPS), str(folder / "steps.json"), str(results)]
    env = clean_environment(**variables, PYIO_TRACE_OUTPUT=str(folder / "run.pyio"))
    done = subprocess.run(
        words, cwd=folder / name, env=env, capture_output=True, text=True, timeout=TIMEOUT, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return list(json.loads(results.read_text()))


def _same_answers(told: list[Any], answers: list[Any]) -> None:
    """The kernel answered what the model says, except for the contents read."""
    assert len(told) == len(answers)
    for said, answer in zip(told, answers, strict=True):
        if isinstance(answer, list):
            assert said[:2] == answer[:2]
            _same_answers(said[2], answer[2])
        elif answer == "fd":
            assert isinstance(said, int)
        else:
            assert (said[0] if isinstance(said, list) else said) == answer


def _descriptors(steps: list[Any], told: list[Any]) -> dict[int, int]:
    """The number of each slot's descriptor."""
    found: dict[int, int] = {}
    for (_, op, *args), said in zip(steps, told, strict=True):
        if op == "fork":
            found |= _descriptors(args[0], said[2])
        elif op in ("open", "dup", "dup2") and isinstance(said, int):
            found[args[0]] = said
    return found


def of_steps(rows: list[Row]) -> list[Row]:
    """The rows of the steps' own calls, in the order in which they began."""
    kept = []
    for row in sorted(rows, key=lambda row: (row["time"], row["id"])):
        function = (row["site"] or "").rpartition(":")[2]
        mapping = row["op"] in ("mmap", "msync", "munmap")
        if row["layer"] == "posix" and (function == "do" or (function == "do_map" and mapping)):
            kept.append(row)
    return kept


def compare_rows(rows: list[Row], expected: list[Expected], descriptors: dict[int, int], folder: str) -> None:
    """Every row is the model's, in the model's order."""
    assert [row["op"] for row in rows] == [
        row["op"] if row["op"] in want.ops else want.ops[0] for row, want in zip(rows, expected, strict=False)
    ] and len(rows) == len(expected), (len(rows), len(expected))
    processes: dict[int, int] = {}
    for row, want in zip(rows, expected, strict=True):
        where = f"{row}\n{want}"
        assert processes.setdefault(want.process, row["process"]) == row["process"], where
        assert (row["tid"] != row["pid"]) == want.thread, where
        assert row["path"] == f"{folder}/{want.path}", where
        assert row["errno"] == want.errno, where
        assert row["bytes_requested"] == want.size or want.size is None, where
        assert row["bytes_moved"] == want.moved or want.moved is None, where
        assert row["duration"] is not None, where
        if want.slot is not None and not want.errno:
            assert row["fd"] == descriptors[want.slot], where
        if want.to is not None:
            assert json.loads(row["detail"])["to"] == f"{folder}/{want.to}", where
        if want.trust == EXACT:
            assert row["file_offset"] == want.offset, where
        elif want.trust != ANY:
            assert row["file_offset"] in (want.offset, None), where
    assert len(set(processes.values())) == len(processes)
    _same_identities(rows, expected)


def _same_identities(rows: list[Row], expected: list[Expected]) -> None:
    """Rows on one file have one identity; those of two files, in use at one time, have two."""
    identity: dict[int, int] = {}
    uses: dict[int, list[int]] = {}
    for number, (row, want) in enumerate(zip(rows, expected, strict=True)):
        if want.file is not None:
            assert identity.setdefault(want.file, row["file"]) == row["file"], f"{row}\n{want}"
            uses.setdefault(want.file, []).append(number)
    for one, first in uses.items():
        for other, second in uses.items():
            if one < other and first[0] < second[-1] and second[0] < first[-1]:
                assert identity[one] != identity[other], (one, other)
