"""`pyio-trace why` says of real hangs what is waited for, who could end it, at which line, and for how long."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pyio_trace.cli.main import main
from pyio_trace.report.why_text import verdict, why_lines
from pyio_trace.running.kernel_process import KernelProcess
from pyio_trace.running.waits import waits_of
from tests.running import hangs
from tests.running.hangs import Hanging, hanging, line_of, main_thread
from tests.support.mirror import mirror
from tests.support.programs import Runner
from tests.support.waiting import wait_until

both = pytest.mark.parametrize("traced", [True, False], ids=["traced", "bare"])

#: Whether this kernel says of a thread that waits when it ran last.
SAYS_WHEN = "se.exec_start" in Path("/proc/self/sched").read_text() if Path("/proc/self/sched").exists() else False


def found(hang: Hanging, text: str, traced: bool, kind: str, call: str = "") -> str:
    """The verdict on a hang whose main thread waits for this kind of thing, in this call (any).

    Of a traced one the line is known.  A later look finds it waiting for longer.
    """

    def is_there(waits: object) -> bool:
        one = main_thread(waits)  # type: ignore[arg-type]
        return one.kind == kind and call in ("", one.call) and (not traced or bool(one.site))

    first = hang.until(is_there, f"a wait for {kind}")
    one = main_thread(first)
    if traced:
        assert one.site.endswith(f"program.py:{line_of(text)}:<module>")
        assert f"program.py:{line_of(text)}" in verdict(first)
    else:
        assert not one.site and "not traced" in "\n".join(why_lines(first))
    if SAYS_WHEN or one.age_from == "record":
        assert one.age_ns is not None
        again = main_thread(waits_of(hang.pid))
        assert (again.kind, again.target) == (one.kind, one.target)
        assert again.age_ns is not None and again.age_ns > one.age_ns
    return verdict(first)


@both
def test_fifo_without_a_writer(program: Runner, traced: bool) -> None:
    with hanging(program, hangs.FIFO, traced=traced) as hang:
        text = found(hang, hangs.FIFO, traced, "fifo")
    assert f"in open of {program.folder}/fifo, a FIFO that nobody has open for writing" in text


@both
def test_flock_of_another_process(program: Runner, traced: bool) -> None:
    path = program.folder / "locked"
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with hanging(program, hangs.FLOCK, path, traced=traced) as hang:
            text = found(hang, hangs.FLOCK, traced, "file lock")
    assert f"for a lock on {path} (flock), held by " in text and f"(pid {os.getpid()})" in text


@both
def test_fcntl_lock_of_another_process(program: Runner, traced: bool) -> None:
    path = program.folder / "locked"
    with open(path, "w") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        with hanging(program, hangs.FCNTL, path, traced=traced) as hang:
            text = found(hang, hangs.FCNTL, traced, "file lock")
    assert f"for a lock on {path} (fcntl), held by " in text and f"(pid {os.getpid()})" in text


@both
def test_a_file_system_that_does_not_answer(program: Runner, tmp_path: Path, traced: bool) -> None:
    with mirror(tmp_path, "stall") as where:
        (tmp_path / "behind" / "stuck").write_bytes(bytes(10))
        with hanging(program, hangs.READ, where / "stuck", traced=traced) as hang:
            try:
                text = found(hang, hangs.READ, traced, "file", "read")
            finally:
                (tmp_path / "behind" / "go").touch()  # a process that waits for an answer cannot be killed
    assert f"in read of {where}/stuck (on fuse" in text and "which has not answered" in text


def test_a_file_mapped_from_there_is_not_opened(program: Runner, tmp_path: Path) -> None:
    # GIVEN a program that maps a file of a file system that answers nothing any more
    with mirror(tmp_path, "stall") as where:
        for name in ("mapped", "stuck"):
            (tmp_path / "behind" / name).write_bytes(bytes(4096))
        with hanging(program, hangs.MAPPED, where / "mapped", where / "stuck", traced=True) as hang:
            try:  # THEN why does not hang as well
                assert "stuck" in found(hang, hangs.MAPPED, True, "file", "read")
            finally:
                (tmp_path / "behind" / "go").touch()


@both
def test_a_pipe_that_nobody_reads(program: Runner, traced: bool) -> None:
    with hanging(program, hangs.FULL_PIPE, traced=traced) as hang:
        text = found(hang, hangs.FULL_PIPE, traced, "pipe")
    assert "in write to a pipe" in text
    if os.geteuid() == 0:  # else other users may have its other end
        assert "that no other process can read from" in text


@pytest.mark.slow
@both
def test_a_pool_whose_workers_die(program: Runner, traced: bool) -> None:
    with hanging(program, hangs.POOL, traced=traced) as hang:
        text = found(hang, hangs.POOL, traced, "lock")
        waits = waits_of(hang.pid)
    assert "lock" in text or "pipe" in text
    assert len(waits.processes) >= 2, "its workers are there"


@both
def test_a_cycle_of_locks(program: Runner, traced: bool) -> None:
    with hanging(program, hangs.CYCLE, traced=traced) as hang:

        def all_wait(waits: object) -> bool:
            threads = waits.processes[0].threads  # type: ignore[attr-defined]
            return (
                len(threads) == 3
                and all(one.kind == "lock" for one in threads)
                and (not traced or all(one.site for one in threads))
            )

        waits = hang.until(all_wait, "three threads that wait")
        assert "is deadlocked: all 3 threads wait" in verdict(waits)
        sites = sorted(int(one.site.split(":")[1]) for one in waits.processes[0].threads if one.site)
        here, there = line_of(hangs.CYCLE), line_of(hangs.CYCLE, "# MAIN")
        assert sites == ([here, here, there] if traced else [])


@both
def test_a_child_that_does_not_end(program: Runner, traced: bool) -> None:
    with hanging(program, hangs.CHILD, traced=traced) as hang:
        found(hang, hangs.CHILD, traced, "child")
        waits = hang.until(
            lambda one: any(each.name == "sleep" and each.threads[0].kind == "sleep" for each in one.processes[1:]),
            "a child that sleeps",
        )
        child = waits.processes[1]
        assert f"for process {child.pid} (sleep) to end" in verdict(waits)
        assert f"; sleep (pid {child.pid}) has been asleep" in verdict(waits)


@both
def test_a_silent_peer(program: Runner, traced: bool) -> None:
    with hanging(program, hangs.SOCKET, traced=traced) as hang:
        text = found(hang, hangs.SOCKET, traced, "socket")
        assert f"in recvfrom of a TCP connection to 127.0.0.1:{hang.said[1]}" in text


@both
def test_asleep_is_no_hang(program: Runner, traced: bool) -> None:
    with hanging(program, hangs.SLEEP, traced=traced) as hang:
        text = found(hang, hangs.SLEEP, traced, "sleep")
    assert "has been asleep" in text and "to go" in text and "waiting" not in text


@both
def test_a_queue_that_stays_empty(program: Runner, traced: bool) -> None:
    with hanging(program, hangs.QUEUE, traced=traced) as hang:
        text = found(hang, hangs.QUEUE, traced, "lock")
    assert not traced or "in queue.Queue.get" in text


@both
def test_a_pair_of_unix_sockets(program: Runner, traced: bool) -> None:
    with hanging(program, hangs.PAIR, traced=traced) as hang:
        assert "in recvfrom of a Unix socket" in found(hang, hangs.PAIR, traced, "socket")


@both
def test_a_select_of_two_pipes(program: Runner, traced: bool) -> None:
    with hanging(program, hangs.POLL, traced=traced) as hang:
        assert "of a pipe" in found(hang, hangs.POLL, traced, "poll")


@both
def test_a_grandchild_that_keeps_a_pipe_open(program: Runner, traced: bool) -> None:
    with hanging(program, hangs.GRANDCHILD, traced=traced) as hang:
        hang.until(lambda one: "sleep (pid " in verdict(one), "the grandchild")
        text = found(hang, hangs.GRANDCHILD, traced, "poll")
    assert "in poll of a pipe, whose writer is sleep (pid " in text and "which is asleep" in text


@both
def test_a_lock_between_processes(program: Runner, traced: bool) -> None:
    with hanging(program, hangs.SEMAPHORE, traced=traced) as hang:
        assert "for a lock between processes" in found(hang, hangs.SEMAPHORE, traced, "shared lock")


@pytest.mark.parametrize(("mode", "text", "kind"), [("profile", hangs.QUEUE, "lock"), ("profile", hangs.FIFO, "fifo"),
                                                    ("ring", hangs.FIFO, "fifo")])  # fmt: skip
def test_other_modes(program: Runner, mode: str, text: str, kind: str) -> None:
    with hanging(program, text, traced=True, env={"PYIO_TRACE_MODE": mode}) as hang:
        found(hang, text, True, kind)


def test_a_run_without_a_sampler_says_so(program: Runner) -> None:
    with hanging(program, hangs.QUEUE, traced=True, env={"PYIO_TRACE_MODE": "ring"}) as hang:
        waits = hang.until(lambda one: main_thread(one).kind == "lock", "a wait for a lock")
        assert "has no sampler" in " ".join(why_lines(waits))


def test_where_the_kernel_hides_the_call(program: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN a system in which only a debugger may see calls (Yama)
    monkeypatch.setattr(KernelProcess, "call", lambda *_: None)
    with hanging(program, hangs.FIFO, traced=True) as hang:
        text = found(hang, hangs.FIFO, True, "fifo")
    assert f"in open of {program.folder}/fifo, a FIFO" in text
    with hanging(program, hangs.SLEEP, traced=False) as hang:
        assert "has been asleep" in found(hang, hangs.SLEEP, False, "sleep")


def test_the_command(program: Runner, capsys: pytest.CaptureFixture[str]) -> None:
    with hanging(program, hangs.SLEEP, traced=True) as hang:
        hang.until(lambda one: main_thread(one).kind == "sleep" and main_thread(one).site, "a sleep")
        assert main(["why", str(hang.pid)]) == 0
        text = capsys.readouterr().out
        assert main(["why", "--json", str(hang.pid)]) == 0
        told = json.loads(capsys.readouterr().out)
    assert text.startswith(f"program.py (pid {hang.pid}) has been asleep")
    assert told["verdict"].startswith(f"program.py (pid {hang.pid}) has been asleep")
    assert told["processes"][0]["threads"][0]["kind"] == "sleep"


@pytest.mark.parametrize("word", ["0", "-1", "x", "", "99999999999999999999", "²", "1.5", "4242; ls"])
def test_what_is_no_number(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["why", "--", word] if word.startswith("-") else ["why", word]
    assert main(words) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_process_that_is_gone(capsys: pytest.CaptureFixture[str]) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert main(["why", str(gone.pid)]) == 2
    assert "[no-such-process]" in capsys.readouterr().err


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_process_of_another_user(program: Runner) -> None:
    with hanging(program, hangs.SLEEP, traced=False) as hang:
        code = (
            "import os, sys; os.setgid(65534); os.setuid(65534); from pyio_trace.cli.main import main; sys.exit(main())"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, "why", str(hang.pid)], cwd="/", capture_output=True, text=True
        )
    if "No module named" in done.stderr or "Permission denied" in done.stderr:
        pytest.skip("another user cannot read the installed package")
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
    assert "[process-not-readable]" in done.stderr


def test_names_are_escaped(program: Runner) -> None:
    text = "import sys, os\nos.mkfifo(sys.argv[1])\nprint('ready', flush=True)\nopen(sys.argv[1])\n"
    with hanging(program, text, "evil\x1b[31m\n::error::x", traced=False) as hang:
        waits = hang.until(lambda one: main_thread(one).kind == "fifo", "a FIFO")
        lines = list(why_lines(waits))
    assert "\\x1b[31m" in lines[0] and not any("\x1b" in line or "\n" in line for line in lines)


def test_a_reused_number_is_another_process() -> None:
    # GIVEN a process whose folder is held
    first = subprocess.Popen(["sleep", "600"])
    with KernelProcess(first.pid) as held:
        assert held.exists()
        # WHEN it ends, whoever gets its number is not read in its place
        first.kill()
        first.wait()
        wait_until(lambda: not held.exists(), "its end")
        assert held.command() == [] and held.threads() == [] and held.stat() is None


def test_it_does_not_stop_the_program(program: Runner) -> None:
    text = """
        import sys, time
        print("ready", flush=True)
        time.sleep(600)
    """
    with hanging(program, text, traced=True) as hang:
        hang.until(lambda one: main_thread(one).kind == "sleep", "a sleep")
        with KernelProcess(hang.pid) as process:
            before = process.text("status")
            for _ in range(5):
                waits_of(hang.pid)
            after = process.text("status")
        switches = [line for line in before.splitlines() if line.startswith(("voluntary", "TracerPid", "SigPnd"))]
        assert all(line in after.splitlines() for line in switches)


def test_the_table_of_calls_is_that_of_the_kernel() -> None:
    from pyio_trace.running import system_calls

    header = next((path for path in (Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),) if path.exists()), None)
    if header is None:
        pytest.skip("no headers of the kernel")
    numbers = dict(line.split()[1:3] for line in header.read_text().splitlines() if line.startswith("#define __NR_"))
    for number, call in system_calls._read("x86_64").items():
        assert numbers.get(f"__NR_{call.name}", str(number)) == str(number), call
