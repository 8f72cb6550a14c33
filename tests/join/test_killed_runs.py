"""No figure of a log depends on when it is read: also of a run that was killed, whose end nobody reported."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pyio_trace.analysis.summary.summarize import summarize
from pyio_trace.analysis.typed_results import views
from pyio_trace.cli.main import main
from pyio_trace.join.pack.packer import pack
from pyio_trace.join.sources.opening import open_log
from pyio_trace.log.parquet_log import KEY
from tests.support.logwriter import LogWriter
from tests.support.programs import Runner
from tests.support.waiting import gone, wait_until

COMMANDS = [
    *(["summary", "--format", "json"], ["insights", "--format", "json"], ["summary", "--all"], ["insights"]),
    *(["events", "--format", "json"], ["files", "--format", "json"], ["stacks", "--format", "json"]),
    *(["processes", "--format", "json"], ["counters", "--format", "json"], ["counters", "--unrecorded"]),
    *(["view", name, "--json"] for name in sorted(views())),
]
#: It starts a child that outlives it, has children that it waits for, and is killed in a call of its child's.
KILLED = """
import os, signal
with open("data", "w") as file:
    file.write("x" * 1000)
if os.fork() == 0:
    os._exit(0)
os.wait()
if os.fork() == 0:
    os.setsid()
    with open("child", "w") as file:
        file.write(str(os.getpid()))
    os.kill(os.getppid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
while True:
    signal.pause()
"""


def everything(log: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    found = {}
    for words in [*COMMANDS, ["diff", str(log), "--format", "json"]]:
        main([words[0], *([words[1], str(log), *words[2:]] if words[0] == "view" else [str(log), *words[1:]])])
        found[" ".join(words)] = capsys.readouterr().out
    return found


def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on it is an hour later."""
    now, now_ns = time.time, time.time_ns
    monkeypatch.setattr(time, "time", lambda: now() + 3600)
    monkeypatch.setattr(time, "time_ns", lambda: now_ns() + 3600 * 10**9)


@pytest.mark.once
@pytest.mark.parametrize(
    "kind",
    ["packed", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("trace", "ring", "profile", "torn", "empty"))],
)
def test_two_readings_say_the_same(
    program: Runner, kind: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN the log of a run that was killed, with its child
    path = program.folder / "run.pyio"
    if kind == "empty":
        LogWriter().save(path)
    else:
        mode = kind if kind in ("ring", "profile") else "trace"
        assert program.traced(KILLED, env={"PYIO_TRACE_MODE": mode}).status == -9
        child = int((program.folder / "child").read_text())
        wait_until(lambda: gone(child), "the end of the child")
    if kind == "torn":
        os.truncate(path, path.stat().st_size * 2 // 3)
    if kind == "packed":
        pack(path, program.folder / "run.parquet")
        path = program.folder / "run.parquet"
    first = everything(path, capsys)
    # WHEN it is read an hour later THEN every command says the same, byte for byte
    later(monkeypatch)
    assert everything(path, capsys) == first
    # AND the run has no end, and is as long as what was seen of it
    if kind in ("trace", "packed"):
        log = open_log(path)
        lost = [row for row in log.processes().to_pylist() if row["ended"].startswith("lost")]
        assert lost and all((row["end"], row["end_by"]) == (None, None) for row in lost)
        rows = log.operations(["time", "duration"]).to_pylist()
        begins = [row["begin"] for row in log.processes().to_pylist()]
        last = max([*(row["time"] + (row["duration"] or 0) for row in rows), *begins])
        run = summarize(log).run
        assert run.wall_is == "at least"
        assert 0 < run.wall <= last - log.info()["start"]


def test_packed_by_an_earlier_version(tmp_path: Path) -> None:
    # GIVEN a Parquet log that says when its process was found gone, as earlier versions wrote it
    writer = LogWriter()
    process = writer.process(100, argv=["python"], begin=2_000)
    writer.thread(process, 100).record("READ", begin=3_000, duration=10)
    pack(writer.save(tmp_path / "log.pyio"), tmp_path / "log.parquet")
    file = pq.ParquetFile(tmp_path / "log.parquet")
    table, metadata = file.read(), dict(file.schema_arrow.metadata)
    description = json.loads(metadata[KEY])
    description["processes"][0] |= {"end": description["processes"][0]["begin"] + 10**12, "end_by": "reader"}
    metadata[KEY] = json.dumps(description).encode()
    pq.write_table(table.replace_schema_metadata(metadata), tmp_path / "old.parquet", write_page_checksum=True)
    # WHEN it is read THEN the process has no end
    (row,) = open_log(tmp_path / "old.parquet").processes().to_pylist()
    assert (row["end"], row["end_by"]) == (None, None)
    assert summarize(open_log(tmp_path / "old.parquet")).run.wall == 1_010
