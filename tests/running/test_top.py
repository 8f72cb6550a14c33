"""`pyio-trace top` shows what a running program has done and what is in flight, and never more or less."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import pyio_trace
from pyio_trace.cli.main import main
from pyio_trace.errors import LogError
from pyio_trace.log import layout
from pyio_trace.report.top_text import once_lines
from pyio_trace.running import watcher as watcher_module
from pyio_trace.running.activity import Activity, Amounts
from pyio_trace.running.find_logs import find_log
from pyio_trace.running.watcher import Watcher, _Sums
from tests.running import hangs
from tests.running.hangs import hanging, log_of
from tests.support.logwriter import OP, LogWriter, Thread
from tests.support.programs import Runner, clean_environment, kill_session, succeeded
from tests.support.smallrun import small_run
from tests.support.waiting import wait_until

#: Reads and writes as often as it is told, says what it has done in all, and waits for the next word.
STEPS = """
    import json, os, sys, threading
    fd = os.open("data.bin", os.O_RDWR | os.O_CREAT)
    os.pwrite(fd, bytes(1 << 16), 0)
    done = {"pread": 0, "read": 0, "pwrite": 1, "written": 1 << 16}
    text = open("lines.txt", "w")
    lock = threading.Lock()
    def work(count):
        for n in range(count):
            read, written = len(os.pread(fd, 100 + n % 50, n % 1000)), os.pwrite(fd, bytes(10 + n % 3), 5)
            with lock:
                done["pread"] += 1; done["read"] += read; done["pwrite"] += 1; done["written"] += written
    print(json.dumps(done), flush=True)
    for word in sys.stdin:
        threads = [threading.Thread(target=work, args=[int(word)]) for _ in range(2)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        for n in range(int(word)): text.write("line")
        print(json.dumps(done), flush=True)
"""


@contextmanager
def stepping(program: Runner, mode: str = "trace", log: str = "run.pyio") -> Iterator[subprocess.Popen[str]]:
    env = {"PYIO_TRACE": "1", "PYIO_TRACE_OUTPUT": log, "PYIO_TRACE_QUIET": "1", "PYIO_TRACE_MODE": mode}
    process = subprocess.Popen(
        [sys.executable, str(program.write(STEPS))], cwd=program.folder, text=True, env=clean_environment(**env),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.poll() is None:
            kill_session(process)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def step(process: subprocess.Popen[str], count: int | None) -> dict[str, int]:
    assert process.stdin is not None and process.stdout is not None
    if count is not None:
        process.stdin.write(f"{count}\n")
        process.stdin.flush()
    done: dict[str, int] = json.loads(process.stdout.readline())
    return done


def of_file(activity: Activity, path: Path) -> Amounts:
    return next(row.total for row in activity.files if row.key == str(path))


@pytest.mark.parametrize("mode", ["trace", "profile", "ring"])
def test_sums_are_what_the_program_did(program: Runner, mode: str) -> None:
    path, data = log_of(program), program.folder / "data.bin"
    with stepping(program, mode) as process:
        done = step(process, None)
        watcher = Watcher(path, whole=True)
        before = Amounts()
        # WHEN it goes on, in steps between which the log is looked at
        for count in (None, 0, 7, 1, 3000, 100):
            done = done if count is None else step(process, count)
            found = watcher.look()
            total = of_file(found, data)
            # THEN the sums are its own, the file's opening included
            assert total.calls == done["pread"] + done["pwrite"] + 1
            assert (total.bytes_read, total.bytes_written) == (done["read"], done["written"])
            # AND those since the last look are the difference
            assert found.now.calls == found.total.calls - before.calls
            assert found.now.bytes_read == found.total.bytes_read - before.bytes_read
            before = found.total
            assert found.state == "running"


def test_sums_are_those_of_the_whole_log(program: Runner) -> None:
    # GIVEN a run whose log was followed while it grew
    path = log_of(program)
    with stepping(program) as process:
        step(process, None)
        watcher = Watcher(path, whole=True)
        for count in (10, 500, 0, 2000):
            step(process, count)
            watcher.look()
        process.communicate()
    found = watcher.look()
    assert found.state == "ended" and found.ended == "exit 0"
    # THEN its sums are those of the log as it is read afterwards
    log = pyio_trace.open(path)
    pytest.importorskip("duckdb")
    rows = log.sql(
        "select layer, sum(calls)::bigint, sum(case when op_class in ('read', 'copy') then bytes_moved end)::bigint,"
        " sum(case when op_class in ('write', 'copy') then bytes_moved end)::bigint from operations"
        " where op_role <> 'container' and op_class <> 'process' group by layer"
    ).to_pylist()
    shown = {row.key: (row.total.calls, row.total.bytes_read, row.total.bytes_written) for row in found.layers}
    assert shown == {layer: (calls, read or 0, written or 0) for layer, calls, read, written in map(dict.values, rows)}


def test_a_call_in_flight_is_found_whenever_one_looks(program: Runner) -> None:
    with hanging(program, hangs.FIFO, traced=True):
        path = log_of(program)
        for whole in (True, False):
            watcher = Watcher(path, whole=whole)
            wait_until(
                lambda watcher=watcher: any(one.path.endswith("/fifo") for one in watcher.look().in_flight), "it"
            )
            first, second = watcher.look(), watcher.look()
            one, other = first.in_flight[0], second.in_flight[0]
            assert one.op == "open" and one.site.endswith(":5:<module>") and one.file_kind in ("", "fifo")
            # its time counts while it lasts
            assert other.age_ns > one.age_ns
            row = next(row for row in second.files if row.key.endswith("/fifo"))
            assert 0 < row.now.time_ns <= second.interval_ns


def test_a_killed_program_has_ended(program: Runner) -> None:
    with hanging(program, hangs.FIFO, traced=True) as hang:
        watcher = Watcher(log_of(program), whole=False)
        assert watcher.look().state == "running"
        hang.kill()
        wait_until(lambda: watcher.look().state == "ended", "the end")
        found = watcher.look()
    assert found.in_flight == [] and found.ended
    assert " ended after " in next(iter(once_lines(found)))


def test_a_log_that_is_packed_and_removed_meanwhile(program: Runner) -> None:
    with stepping(program, log="run.parquet") as process:
        step(process, None)
        watcher = Watcher(log_of(program), whole=True)
        done = step(process, 50)
        process.communicate()
    wait_until(lambda: not log_of(program).exists(), "packing")
    found = watcher.look()
    assert found.state == "ended" and found.summary_of == str(program.folder / "run.parquet")
    assert of_file(found, program.folder / "data.bin").bytes_read == done["read"]


def test_no_lock_is_taken(program: Runner) -> None:
    with stepping(program) as process:
        step(process, None)
        watcher = Watcher(log_of(program), whole=True)
        watcher.look()
        inode = log_of(program).stat().st_ino
        held = [line.split() for line in Path("/proc/locks").read_text().splitlines() if f":{inode} " in line]
        assert all(str(os.getpid()) not in words for words in held)
        assert "run.pyio" not in Path("/proc/self/maps").read_text()


# ---- logs made by hand


def totals(path: Path) -> tuple[int, int, int]:
    found = Watcher(path, whole=True).look().total
    return found.calls, found.bytes_read, found.bytes_written


def test_the_small_run(tmp_path: Path) -> None:
    found = Watcher(small_run(tmp_path / "run.pyio"), whole=True).look()
    assert (found.total.calls, found.total.bytes_read, found.total.bytes_written) == (
        9, 500 + 8192 + 8192 + 30_000 + 500 + 4096, 1000,
    )  # fmt: skip
    assert found.counted_only == 7 and found.state in ("unknown", "ended")


class Growth:
    """A log that is written step by step, as a program would."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.writer = LogWriter()
        self.process = self.writer.process(100, argv=["python", "x.py"], begin=1_000)
        self.thread: Thread = self.writer.thread(self.process, 100)
        self.desc = self.writer.desc(3, "/d/in", kind=1, dev=1, ino=2)
        self.watcher: Watcher | None = None

    def look(self) -> Activity:
        data = self.writer.save(self.path.with_name("next")).read_bytes()
        with open(self.path, "r+b" if self.path.exists() else "w+b") as file:  # in place, as it is mapped
            file.write(data)
        self.watcher = self.watcher or Watcher(self.path, whole=True)
        return self.watcher.look()

    def read(self, begin: int, size: int, **more: int) -> int:
        return self.thread.record("PREAD", begin=begin, desc=self.desc, size=size, result=size, aux=3, offset=0, **more)

    def change(self, identity: int, **fields: int) -> None:
        at = identity << layout.ID_SHIFT
        import numpy as np

        row = np.frombuffer(bytes(self.writer.data[at : at + 48]), layout.RECORD).copy()
        for name, value in fields.items():
            row[name] = value
        self.writer.put(at, row)


def test_a_record_counts_once_it_is_done(tmp_path: Path) -> None:
    log = Growth(tmp_path / "run.pyio")
    one = log.read(2_000, 100, state=layout.BEGUN)
    found = log.look()
    assert found.total.calls == 0
    log.read(3_000, 10)
    assert log.look().total.bytes_read == 10
    log.change(one, flags=layout.DONE, duration_lo=50)
    found = log.look()
    assert (found.total.calls, found.total.bytes_read, found.in_flight_count) == (2, 110, 0)
    assert (log.look().total.calls, totals(log.path)) == (2, (2, 110, 0))


def test_an_empty_place_that_is_filled_later(tmp_path: Path) -> None:
    log = Growth(tmp_path / "run.pyio")
    hole = log.read(2_000, 100, state=layout.EMPTY)
    log.read(3_000, 10)
    assert log.look().total.bytes_read == 10
    log.change(hole, flags=layout.DONE)
    assert log.look().total.bytes_read == 110
    assert totals(log.path) == (2, 110, 0)


def test_a_chunk_whose_header_comes_later(tmp_path: Path) -> None:
    log = Growth(tmp_path / "run.pyio")
    log.look()
    start = log.writer.chunk(layout.CHUNK_OPS, layout.PAGE, log.process, 200)
    head = bytes(log.writer.data[start : start + 80])
    log.writer.put(start, bytes(8))  # the magic is written last
    log.read(3_000, 10)
    assert log.look().total.bytes_read == 10
    other = log.writer.thread(log.process, 200)
    other.at, other.end = start + layout.OPS_START, start + layout.PAGE
    other.record("PREAD", begin=4_000, desc=log.desc, size=7, result=7, aux=3, offset=0)
    log.writer.put(start, head[:8])
    assert log.look().total.bytes_read == 17
    assert totals(log.path) == (2, 17, 0)


def test_a_read_of_more_than_32_bits(tmp_path: Path) -> None:
    log = Growth(tmp_path / "run.pyio")
    wide = log.read(2_000, 0, flags=layout.WIDE)
    log.look()
    log.thread.record("EXT", begin=5 << 32, parent=wide, offset=6 << 32)
    found = log.look()
    assert (found.total.calls, found.total.bytes_read) == (1, 5 << 32)
    assert totals(log.path) == (1, 5 << 32, 0)


def test_many_chunks_and_threads(tmp_path: Path) -> None:
    log, chance = Growth(tmp_path / "run.pyio"), random.Random(3)
    threads = [log.writer.thread(log.process, tid) for tid in range(300, 305)]
    calls = moved = 0
    for begin in range(1, 30):
        for _ in range(chance.randrange(200)):
            size = chance.randrange(1, 9000)
            chance.choice(threads).record("PREAD", begin=begin * 1000, desc=log.desc, size=size, result=size, offset=0)
            calls, moved = calls + 1, moved + size
        if chance.random() < 0.3:
            log.writer.gap()
        found = log.look()
        assert (found.total.calls, found.total.bytes_read) == (calls, moved)


def test_sums_of_like_operations_that_grow(tmp_path: Path) -> None:
    import numpy as np

    log = Growth(tmp_path / "run.pyio")
    start = log.writer.chunk(layout.CHUNK_SUMS, layout.PAGE, log.process, 100)
    row = np.zeros((), layout.PROFILE)
    row["heap"] = (layout.HEAP_PROFILE, layout.PROFILE_SIZE)
    row["process"], row["tid"], row["op"], row["desc"] = log.process, 100, OP["PREAD"], log.desc
    for count in (1, 1, 5, 900):
        row["begun"], row["count"], row["moved"], row["ticks"] = count + 1, count, 10 * count, 100 * count
        row["first"], row["last"] = 2_000, 3_000
        log.writer.put(start + layout.HEAP_START, row)
        found = log.look()
        assert (found.total.calls, found.total.bytes_read) == (count, 10 * count)


def test_so_many_keys_that_some_are_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher_module, "_MOST_KEYS", 16)
    sums = _Sums()
    for at in range(100):
        sums.now = {}
        sums.add(f"key {at}", Amounts(1, 2, 3, at))
        sums.close()
        assert len(sums.total) <= 18
    rows = sums.rows()
    assert sum(row.total.calls for row in rows) == 100 and sum(row.total.time_ns for row in rows) == sum(range(100))


def test_torn_cut_and_forged_logs(tmp_path: Path) -> None:
    whole, chance = bytearray(small_run(tmp_path / "good.pyio").read_bytes()), random.Random(5)
    path = tmp_path / "run.pyio"
    for turn in range(60):
        data = bytearray(whole)
        for _ in range(chance.randrange(200)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        path.write_bytes(data[: chance.randrange(len(data))] if turn % 3 == 0 else data)
        try:
            watcher = Watcher(path, whole=bool(turn % 2))
            watcher.look()
            # WHEN it is cut while it is watched
            os.truncate(path, chance.randrange(len(data)))
            list(once_lines(watcher.look()))
        except LogError as error:
            assert len(str(error).splitlines()) == 1


@pytest.mark.parametrize("content", [b"", b"PAR1", b"text\n" * 9000, layout.MAGIC + bytes(100)])
def test_what_is_no_live_log(tmp_path: Path, content: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run.pyio").write_bytes(content)
    assert main(["top", str(tmp_path / "run.pyio"), "--once"]) == 2
    told = capsys.readouterr().err
    assert len(told.splitlines()) == 1 and (content != b"PAR1" or "its run is over" in told)


# ---- which log is meant


def test_the_log_of_a_folder_and_of_a_process(
    program: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LogError, match="no-such-log"):
        find_log(None)
    succeeded(program.traced("print()", log="ended.pyio"))
    with pytest.raises(LogError, match="no-such-log"):
        find_log(None)  # its run has ended
    with stepping(program) as process:
        step(process, None)
        assert find_log(None).path == "run.pyio"
        assert find_log(str(tmp_path)).path == str(log_of(program))
        of_process = find_log(str(process.pid))
        assert of_process.path == str(log_of(program)) and of_process.opened is not None
        os.close(of_process.opened)
        assert main(["top", str(process.pid), "--json", "--interval", "0.1"]) == 0
        assert json.loads(capsys.readouterr().out)["pid"] == process.pid
        with stepping(program, log="other.pyio") as second:
            step(second, None)
            with pytest.raises(LogError, match="several-logs"):
                find_log(None)


def test_a_process_that_is_not_traced(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", str(os.getpid()), "--once"]) == 2
    assert "[process-not-traced]" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--interval", "0"], ["--interval", "nan"], ["--interval", "x"], ["a", "b"]])
def test_wrong_words(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", "--once", *words]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


# ---- the screen


def test_without_a_terminal_or_textual(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(small_run(tmp_path / "run.pyio"))
    assert main(["top", path]) == 2
    assert "[no-terminal]" in capsys.readouterr().err
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    monkeypatch.setitem(sys.modules, "textual", None)
    assert main(["top", path]) == 2
    told = capsys.readouterr().err
    assert "[not-installed]" in told and "pyio_trace[top]" in told and len(told.splitlines()) == 1


@pytest.mark.slow
@pytest.mark.parametrize(("width", "height"), [(80, 24), (200, 50), (60, 12)])
def test_the_screen(program: Runner, tmp_path: Path, width: int, height: int) -> None:
    pytest.importorskip("textual")
    if shutil.which("tmux") is None:
        pytest.skip("needs tmux")
    server = ["tmux", "-S", str(Path(os.environ.get("TMPDIR", "/tmp")) / f"tmux-{os.getpid()}-{width}")]

    def tmux(*words: str) -> str:
        return subprocess.run([*server, *words], capture_output=True, text=True, check=True).stdout

    def screen() -> str:
        return tmux("capture-pane", "-p", "-t", "top")

    with hanging(program, hangs.FIFO, traced=True) as hang:
        command = f"{sys.executable} -m pyio_trace top {log_of(program)} --interval 0.2"
        tmux("new-session", "-d", "-s", "top", "-x", str(width), "-y", str(height), command)
        try:
            # THEN the call in flight is there, with its path and line, and the keys
            wait_until(lambda: "program.py:5" in screen(), "the call in flight")
            lines = screen().splitlines()
            assert lines[0].startswith(f"program.py (pid {hang.pid})")
            assert any("open" in line and "fifo" in line for line in lines)
            assert any("time" in line and "calls/s" in line for line in lines)
            assert any("q quit" in line for line in lines) and len(lines) <= height
            # WHEN keys are pressed
            tmux("send-keys", "-t", "top", "Tab")
            wait_until(lambda: "FILES" in screen(), "the next table")
            tmux("send-keys", "-t", "top", "s")
            wait_until(lambda: "[by calls]" in screen(), "another order")
            tmux("send-keys", "-t", "top", "t")
            wait_until(lambda: "THREADS" in screen(), "the threads")
            tmux("send-keys", "-t", "top", "/", "nosuch", "Enter")
            wait_until(lambda: "/nosuch]" in screen(), "the filter")
            tmux("send-keys", "-t", "top", "p")
            wait_until(lambda: screen().startswith("PAUSED"), "the pause")
            tmux("send-keys", "-t", "top", "p")
            # WHEN the program ends
            hang.kill()
            wait_until(lambda: " ended after " in screen(), "the banner")
            assert "pyio-trace s" in screen()
            tmux("send-keys", "-t", "top", "q")
            wait_until(lambda: subprocess.run([*server, "ls"], capture_output=True).returncode != 0, "the end of it")
        finally:
            subprocess.run([*server, "kill-server"], capture_output=True)


@pytest.mark.parametrize(("flags", "told"), [((), True), (("-q",), False)])
def test_a_launch_on_a_terminal_says_where_its_log_is(program: Runner, flags: tuple[str, ...], told: bool) -> None:
    import pty

    # GIVEN a terminal as stderr
    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "pyio_trace", *flags, "-o", "run.pyio", str(program.write("print('hello')"))]
    process = subprocess.Popen(
        words, cwd=program.folder, env=clean_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    said = b""
    try:
        while part := os.read(ours, 4096):
            said += part
    except OSError:  # EIO: the other end is closed
        pass
    os.close(ours)
    assert process.communicate()[0] == b"hello\n" and process.returncode == 0
    lines = said.decode().splitlines()
    start = f"pyio-trace: traced into {log_of(program)}; look: pyio-trace top {process.pid}"
    assert (lines[:1] == [start]) is told
    # AND nothing of it where stderr is a pipe
    outcome = program.command([*words[:3], "-o", "other.pyio", words[-1]])
    assert "traced into" not in outcome.stderr
