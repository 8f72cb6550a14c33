"""Logs that are not plain files at rest: enormous, empty, devices, growing or shrinking under the reader."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest

import pyio_trace
from pyio_trace.errors import LogError
from pyio_trace.log import layout
from tests.fuzz import readings, seeds
from tests.support.logwriter import LogWriter

pytestmark = pytest.mark.once  # reading logs is the same on every Python

ROOT = Path(__file__).parents[2]
_READ = """
import sys
from pathlib import Path
from tests.fuzz import readings
for choice in range(len(readings.COMMANDS)):
    print(readings.read(Path(sys.argv[1]), choice))
print(open("/proc/self/io").read())
"""


_BUSY = """
import os, time
number = 0
while True:
    number += 1
    try: os.stat(f"/nothing/{number}")
    except OSError: pass
    if number == 2000: print("going on", flush=True)
    if number % 100 == 0: time.sleep(0.001)
"""


def bounded(path: Path, memory: int = 2 << 30) -> list[str]:
    """Every reading, in a process that may have so much memory; what came of each, and the bytes it read."""

    def limits() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        resource.setrlimit(resource.RLIMIT_CPU, (60, 60))

    done = subprocess.run(
        [sys.executable, "-c", _READ, path], cwd=ROOT, capture_output=True, text=True, preexec_fn=limits
    )
    assert done.returncode == 0, f"{done.returncode}\n{done.stderr[-4000:]}"
    read = re.search(r"rchar: (\d+)", done.stdout)
    assert read
    return [*done.stdout.split("\n")[: len(readings.COMMANDS)], read[1]]


def sparse(path: Path, data: bytes, size: int = 1 << 40) -> Path:
    path.write_bytes(data)
    os.truncate(path, size)
    return path


@pytest.mark.slow
def test_a_terabyte_of_nothing_after_a_log(tmp_path: Path) -> None:
    # GIVEN a sound log in a sparse file of 1 TiB, all of which its header claims
    writer = bytearray(seeds.rich())
    header = np_header(writer)
    header["next"], header["budget"] = 1 << 40, 1 << 40
    writer[: layout.HEADER.itemsize] = header.tobytes()
    path = sparse(tmp_path / "log", bytes(writer))
    # WHEN it is read in every way THEN each gives the table, and little is read
    *outcomes, read = bounded(path)
    assert set(outcomes) == {"table"}
    assert int(read) < 1 << 30
    (tmp_path / "small").write_bytes(seeds.rich())
    small, large = pyio_trace.open(tmp_path / "small"), pyio_trace.open(path)
    assert large.operations().equals(small.operations())


@pytest.mark.slow
@pytest.mark.parametrize("kind", [layout.CHUNK_OPS, layout.CHUNK_HEAP])
def test_a_chunk_that_claims_a_terabyte(kind: int, tmp_path: Path) -> None:
    writer = LogWriter()
    thread = writer.thread(writer.process(100), 100)
    thread.record("STAT", begin=2_000, desc=writer.string("/x"))
    at = writer.chunk(kind, layout.PAGE)
    writer.put(at + 16, ((1 << 40) - at).to_bytes(8, "little"))
    writer.header["next"] = 1 << 40
    path = sparse(tmp_path / "log", writer.bytes())
    *outcomes, read = bounded(path)
    assert set(outcomes) == {"table"} and int(read) < 1 << 30
    assert pyio_trace.open(path).operations(["path"]).to_pylist() == [{"path": "/x"}]


def np_header(data: bytes | bytearray) -> np.void:
    """A copy of a log's header that can be written to."""
    return np.frombuffer(bytes(data), layout.HEADER, 1).copy()[0]


def test_what_is_no_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for name, slug in {
        str(tmp_path / "fifo"): "not-a-log", "/dev/null": "not-a-log", "/dev/zero": "not-a-log",
        str(tmp_path / "none"): "no-such-log", "/dev/null/x": "no-such-log", "a\0b": "no-such-log",
        str(tmp_path / ("x" * 300)): "log-unreadable", "/proc/self/mem": "log-unreadable", str(tmp_path): "not-a-log",
    }.items():  # fmt: skip
        with pytest.raises(LogError) as caught:
            pyio_trace.open(name)
        assert caught.value.slug == slug, name
        assert not readings.RAW.search(str(caught.value))
    # nobody has opened the FIFO's other end
    with pytest.raises(OSError):
        os.open(tmp_path / "fifo", os.O_WRONLY | os.O_NONBLOCK)


def test_a_log_that_grows_while_it_is_read(tmp_path: Path) -> None:
    # GIVEN a log that a program keeps writing to
    script, live = tmp_path / "busy.py", tmp_path / "log"
    script.write_text(_BUSY)
    words = [sys.executable, "-m", "pyio_trace", "-q", "-o", str(live), str(script)]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE) as busy:
        try:
            assert busy.stdout is not None and busy.stdout.readline() == b"going on\n"
            before = 0
            # WHEN it is opened again and again THEN each has one set of rows, whole, and never fewer than before
            for choice in range(5):
                log = pyio_trace.open(live)
                table = log.operations(readings.EVERY)
                table.validate(full=True)
                assert table.num_rows == log.rows() == sum(b.num_rows for b in log.batches(["id"], 1 + choice * 999))
                assert log.rows() >= before
                before = log.rows()
                named = table.filter(pc.field("op") == "stat").select(["path", "call_stack"])
                # the last ones too: what a row refers to is there
                assert named.num_rows > 1000
                assert named["path"].null_count == named["call_stack"].null_count == 0
        finally:
            busy.kill()


def test_a_log_that_is_cut_while_it_is_read(tmp_path: Path) -> None:
    # GIVEN a log of some MiB
    path = tmp_path / "log"
    writer = LogWriter()
    thread = writer.thread(writer.process(100), 100, chunk_size=1 << 20)
    name = writer.string("/x")
    for step in range(40_000):
        thread.record("STAT", begin=2_000 + step, desc=name)
    data = writer.bytes()
    seen = set()
    # WHEN it is cut, and whole again, at any instant of the reading THEN there is a table or an error, never a signal
    stop = threading.Event()

    def cut() -> None:
        while not stop.is_set():
            os.truncate(path, len(data) // 3)
            path.write_bytes(data)

    path.write_bytes(data)
    cutting = threading.Thread(target=cut)
    cutting.start()
    try:
        for _ in range(150):
            seen.add(_outcome(path))
    finally:
        stop.set()
        cutting.join()
    assert seen <= {"table", "log-truncated", "not-a-log"}
    # and cut for good between opening and reading, it is an error
    path.write_bytes(data)
    log = pyio_trace.open(path)
    os.truncate(path, len(data) // 3)
    with pytest.raises(LogError) as caught:
        log.operations()
    assert caught.value.slug == "log-truncated"


def _outcome(path: Path) -> str:
    try:
        pyio_trace.open(path).operations().validate(full=True)
    except LogError as error:
        return error.slug
    return "table"


def test_a_torn_log_among_whole_ones(tmp_path: Path) -> None:
    # GIVEN a folder with two logs, and a third that is cut off within its header
    folder = tmp_path / "logs"
    folder.mkdir()
    one, two = LogWriter(), LogWriter()
    for number, writer in enumerate((one, two)):
        writer.header["run_id"] = number + 1
        writer.thread(writer.process(100), 100).record("STAT", begin=2_000, desc=writer.string(f"/{number}"))
        writer.save(folder / f"{number}.pyio")
    (folder / "torn.pyio").write_bytes(one.bytes()[:5000])
    (folder / "text.parquet").write_bytes(b"PAR1 and no more")
    # WHEN the folder is read THEN the whole ones are there, and what is not is said
    log = pyio_trace.open(folder)
    assert log.operations(["path"]).to_pylist() == [{"path": "/0"}, {"path": "/1"}]
    reasons = log.losses()["unreadable_logs"]
    assert sorted(reason.rpartition(" ")[2] for reason in reasons) == ["[log-truncated]", "[log-truncated]"]
    assert {str(folder / name) in reason for name in ("torn.pyio", "text.parquet") for reason in reasons} == {
        True,
        False,
    }
    for words in readings.COMMANDS:
        readings.command(folder, words)
    # and with none that can be read, the first reason is the error
    for number in range(2):
        (folder / f"{number}.pyio").unlink()
    with pytest.raises(LogError) as caught:
        pyio_trace.open(folder)
    assert caught.value.slug == "log-truncated"
