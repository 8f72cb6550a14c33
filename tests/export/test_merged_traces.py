"""--with: a trace of torch.profiler and the log on one clock, in one picture; whatever the trace may hold."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from pyio_trace.cli.main import main
from tests.export.pictures import export, many_operations, shown
from tests.export.test_timelines import of_chrome, of_perfetto
from tests.export.wire import Slice
from tests.support.programs import Runner, succeeded
from tests.support.smallrun import START, small_run

BASE = START - 1_000_000
#: A trace of the process of small_run(): an operator around a launch, a kernel on a stream, a flow between them.
EVENTS: list[dict[str, Any]] = [
    {"ph": "M", "name": "process_name", "pid": 100, "tid": 0, "ts": 0, "args": {"name": "python"}},
    {"ph": "M", "name": "thread_name", "pid": 100, "tid": 100, "ts": 0, "args": {"name": "thread 100 (python)"}},
    {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 100, "tid": 100, "ts": 1020.5, "dur": 30.25,
     "args": {"External id": 3, "Input Dims": [[2, 3], []]}},
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 100, "tid": 100, "ts": 1021, "dur": 5},
    {"ph": "X", "cat": "kernel", "name": "add</script>", "pid": 0, "tid": 7, "ts": 1060, "dur": 10.001},
    {"ph": "s", "cat": "ac2g", "name": "ac2g", "id": 3, "pid": 100, "tid": 100, "ts": 1021},
    {"ph": "f", "cat": "ac2g", "name": "ac2g", "id": 3, "pid": 0, "tid": 7, "ts": 1060, "bp": "e"},
    {"ph": "i", "cat": "x", "name": "Record Window End", "pid": "Traces", "tid": "Trace", "ts": 1100, "s": "g"},
    {"ph": "C", "name": "memory", "pid": 100, "tid": 100, "ts": 1020, "args": {"bytes": 1}},
]  # fmt: skip


def trace(path: Path, events: list[Any] = EVENTS, **more: Any) -> Path:
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events, "baseTimeNanoseconds": BASE} | more))
    return path


def slices_of(to: str, path: Path) -> list[Slice]:
    return of_perfetto(path)[0].slices if to == "perfetto" else of_chrome(path)[1]


@pytest.mark.parametrize("to", ["chrome", "perfetto"])
def test_both_are_on_one_clock(to: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = small_run(tmp_path / "run.pyio")
    output = export(log, tmp_path / "x", to, "--with", str(trace(tmp_path / "trace.json")))
    said = capsys.readouterr().out
    every = slices_of(to, output)
    at = {one.name: one for one in every}
    add, launch, kernel = at["aten::add"], at["cudaLaunchKernel"], at["add</script>"]
    # THEN the trace's events have its times to the nanosecond, beneath the same process
    assert (add.begin, add.end) == (BASE + 1_020_500, BASE + 1_050_750)
    assert (kernel.begin - BASE, kernel.end - kernel.begin) == (1_060_000, 10_001)
    assert add.process == at["epoch"].process and add.thread == "thread 100 (python) (torch.profiler)"
    assert launch.depth == add.depth + 1 and kernel.process == "process 0 (torch.profiler)"
    # AND nothing of the log is lost
    assert len(every) == sum(shown(log).values()) + 4
    args = add.args["args"] if to == "perfetto" else json.dumps(add.args)
    assert json.loads(args) == {"External id": 3, "Input Dims": [[2, 3], []]}
    if to == "perfetto":
        assert launch.leaving and launch.leaving == kernel.arriving
    assert "4 events of " in said and "not drawn of it: 1 event of kind C" in said and "overlap" not in said


def test_a_packed_trace_without_a_base(tmp_path: Path) -> None:
    # GIVEN a trace as torch wrote them before 2.2, with the time since 1970, packed by gzip
    path = tmp_path / "trace.json.gz"
    events = [{"ph": "X", "name": "op", "pid": 100, "tid": 100, "ts": START / 1000 + 20, "dur": 1}]
    path.write_bytes(gzip.compress(json.dumps({"traceEvents": events}).encode()))
    output = export(small_run(tmp_path / "run.pyio"), tmp_path / "x", "perfetto", "--with", str(path))
    (op,) = [one for one in of_perfetto(output)[0].slices if one.name == "op"]
    assert abs(op.begin - START - 20_000) < 1_000


def test_a_trace_of_another_run_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = trace(tmp_path / "trace.json", baseTimeNanoseconds=1)
    export(small_run(tmp_path / "run.pyio"), tmp_path / "x", "chrome", "--with", str(path))
    assert "does not overlap" in capsys.readouterr().out


@pytest.mark.parametrize("to", ["chrome", "perfetto"])
def test_a_largest_size_holds(to: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = [
        {"ph": "X", "cat": "op", "name": f"op{n}", "pid": 5, "tid": 5, "ts": n, "dur": n / 10, "args": {"n": "x" * 50}}
        for n in range(5000)
    ]
    path = trace(tmp_path / "trace.json", events)
    output = export(many_operations(tmp_path / "run.pyio"), tmp_path / "x", to, "--with", str(path),
                    "--max-size", "100000")  # fmt: skip
    assert output.stat().st_size <= 100_000
    said = capsys.readouterr().out
    names = {one.name for one in slices_of(to, output)}
    assert {"op4999", "pread"} <= names and "op1" not in names and "left out of it: the shortest" in said


_DEEP = '{"traceEvents": [' + '{"a":' * 100_000
BAD = {
    "empty": b"", "text": b"hello", "list": b"[1, 2]", "no events": b'{"a": 1}', "null": b'{"traceEvents": null}',
    "cut": json.dumps({"traceEvents": EVENTS}).encode()[:-9], "not objects": b'{"traceEvents": [1]}',
    "deep": _DEEP.encode(), "packed": gzip.compress(b'{"traceEvents": [')[:-3], "no gzip": b"\x1f\x8bxyz",
    "no colon": b'{"traceEvents" []}', "number": b'{"traceEvents": [], "x": 1e}', "key": b"{1: 2}",
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_trace_is_one_line(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "trace.json").write_bytes(BAD[name])
    log = str(small_run(tmp_path / "run.pyio"))
    words = ["export", log, "--to", "chrome", "-o", str(tmp_path / "x"), "--with", str(tmp_path / "trace.json")]
    assert main(words) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1 and said.err.endswith("[bad-trace]\n")
    assert not (tmp_path / "x").exists()


def test_odd_events_do_no_harm(tmp_path: Path) -> None:
    odd: list[dict[str, Any]] = [
        {}, {"ph": 3}, {"ph": "X"}, {"ph": "X", "ts": "now"}, {"ph": "X", "ts": -5, "dur": 1}, {"ph": "X", "ts": 1e300},
        {"ph": "X", "ts": True}, {"ph": "s", "ts": 1}, {"ph": "f", "id": [1], "ts": 1}, {"ph": "M", "args": 3},
        {"ph": "M", "name": "process_name", "pid": {}, "args": {"name": 3}},
        {"ph": "X", "ts": 1, "dur": -4, "name": "a" * 10_000, "cat": None, "args": [1], "pid": [], "tid": {"a": 1}},
        {"ph": "X", "ts": 2, "dur": "x", "name": "\ud800\u202e\x00", "args": {"\udfff": "\ud800", "big": "y" * 9_000}},
        {"ph": "X", "ts": 3, "dur": 1e18, "name": 7, "pid": 1 << 70, "tid": -1, "args": {"deep": [[[[1]]]]}},
        {"ph": "X", "ts": 10**400, "name": "n"}, {"ph": "X", "ts": 4, "dur": 10**400, "name": "n"},
    ]  # fmt: skip
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": odd, "baseTimeNanoseconds": "x", "other": {"a": [1, {"b": None}]}}))
    log = small_run(tmp_path / "run.pyio")
    for to in ("chrome", "perfetto"):
        every = slices_of(to, export(log, tmp_path / to, to, "--with", str(path)))
        assert len(every) == sum(shown(log).values()) + 4
        assert all(one.name.isprintable() and len(one.name) < 600 for one in every)


TRAINING = """\
import os, torch
from torch.profiler import ProfilerActivity, profile
fd = os.open("data", os.O_RDWR | os.O_CREAT)
os.write(fd, bytes(1 << 16))
with profile(activities=[ProfilerActivity.CPU]) as profiler:
    for step in range(3):
        with torch.profiler.record_function("load a batch"):
            data = os.pread(fd, 4096, step * 4096)
        torch.ones(64, 64) @ torch.ones(64, 64)
profiler.export_chrome_trace("trace.json")
"""


@pytest.mark.frameworks("torch")
@pytest.mark.skipif(sys.platform != "linux", reason="as pyio_trace")
def test_a_trace_of_torch(program: Runner, tmp_path: Path) -> None:
    # GIVEN a traced program with torch.profiler in it WHEN both are in one picture
    outcome = succeeded(program.traced(TRAINING))
    path = outcome.path.parent / "trace.json"
    for to in ("chrome", "perfetto"):
        every = slices_of(to, export(outcome.path, tmp_path / to, to, "--with", str(path)))
        reads = [one for one in every if one.name == "pread" and one.args.get("path", "").endswith("/data")]
        batches = [one for one in every if one.name == "load a batch"]
        # THEN each read lies in the span that the profiler saw around it, in the same process
        assert len(reads) == len(batches) == 3 and {one.process for one in batches} == {reads[0].process}
        for read, batch in zip(reads, batches, strict=True):
            assert batch.begin <= read.begin <= read.end <= batch.end
        assert any(one.name == "aten::mm" for one in every)
