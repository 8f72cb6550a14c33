"""Programs beside which the sampler looks: what they print, their status, children, signals and files are as bare."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap

import pytest

from tests.support.programs import Runner, alike, succeeded
from tests.support.samples import Live
from tests.support.soak import rounds

SAMPLED = {"PYIO_TRACE_SAMPLE": "200"}

#: What programs have in common: some work, so that there are samples; what the kernel shows of a process.
COMMON = """\
import os, resource, signal, subprocess, sys, threading, time

def work(seconds=0.1):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(1000))

def children():
    tasks = os.listdir("/proc/self/task")
    return sum(len(open(f"/proc/self/task/{task}/children").read().split()) for task in tasks)

def waited():
    try:
        return os.waitpid(-1, os.WNOHANG)
    except ChildProcessError as problem:
        return problem.errno

def fork(then):
    child = os.fork()
    if child == 0:
        then()
        os._exit(0)
    return child

work()
"""

PROGRAMS = {
    "status": "sys.exit(3)",
    "exception": "raise KeyError('x')",
    "abrupt end": "os._exit(4)",
    "killed by itself": "os.kill(os.getpid(), signal.SIGKILL)",
    "abort": "resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); os.abort()",
    "children": "print(children(), waited())",
    "children of threads": """\
        thread = threading.Thread(target=lambda: (work(), print(children(), waited())))
        thread.start(); thread.join()
        """,
    "waits for all": """\
        own = {fork(work) for _ in range(4)}
        ended = []
        while True:
            try:
                ended.append(os.wait())
            except ChildProcessError:
                break
        print(len(ended), {pid for pid, _ in ended} == own)
        """,
    "waitid": "fork(work); print(os.waitid(os.P_ALL, 0, os.WEXITED).si_status, waited())",
    "wait by group": "os.setpgrp(); fork(work); print(os.waitpid(0, 0)[1], waited())",
    "usage of children": "print(round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime, 2))",
    "children without status": "signal.signal(signal.SIGCHLD, signal.SIG_IGN); fork(work); print(waited() != 0)",
    "sigchld": """\
        told = []
        signal.signal(signal.SIGCHLD, lambda *_: told.append(1))
        work(0.3)
        print(told)
        """,
    "interval timer": """\
        told = []
        signal.signal(signal.SIGPROF, lambda *_: told.append(1))
        signal.setitimer(signal.ITIMER_PROF, 0.02, 0.02)
        work(0.3)
        print(len(told) > 3)
        """,
    "alarm in a sleep": """\
        signal.signal(signal.SIGALRM, lambda *_: print("alarm"))
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        time.sleep(0.3)
        """,
    "sigwait": """\
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
        signal.setitimer(signal.ITIMER_REAL, 0)
        os.kill(os.getpid(), signal.SIGUSR1)
        print(signal.sigwait([signal.SIGUSR1]), signal.sigpending())
        """,
    "affinity": """\
        one = min(os.sched_getaffinity(0))
        os.sched_setaffinity(0, [one])
        work()
        print(os.sched_getaffinity(0) == {one}, subprocess.run(["nproc"], capture_output=True).stdout)
        """,
    "priority": "os.nice(1); work(); print(os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0) > 0)",
    "a session of its own": """\
        child = fork(lambda: (os.setsid(), work(), print(os.getsid(0) == os.getpid(), waited(), flush=True)))
        print(os.waitpid(child, 0)[1])
        """,
    "the session": "print(os.getsid(0) == os.getpid(), os.getpgrp() == os.getpid())",
    "descriptors": "print([fd for fd in range(200) if os.path.exists(f'/proc/self/fd/{fd}')], os.dup(1))",
    "lowest descriptor": "os.close(0); print(os.open('/dev/null', os.O_RDONLY)); work()",
    "few descriptors": """\
        resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))
        held = []
        try:
            while True: held.append(os.dup(1))
        except OSError as problem:
            print(len(held), problem.errno)
        work()
        """,
    "limit of processor time": "resource.setrlimit(resource.RLIMIT_CPU, (60, 60)); work(); print(waited())",
    "folder and mask": "os.chdir('/'); os.umask(0o77); work(); print(os.getcwd(), os.umask(0))",
    "a folder that is removed": "os.mkdir('d'); os.chdir('d'); os.rmdir('../d'); work(); print(os.path.exists('../d'))",
    "chain of exec": """\
        left = int(sys.argv[1]) if len(sys.argv) > 1 else 4
        print(left, os.getpid() == os.getsid(0), waited(), flush=True)
        if left:
            os.execv(sys.executable, [sys.executable, sys.argv[0], str(left - 1)])
        """,
    "exec of another program": "os.execlp('sh', 'sh', '-c', 'echo a; exit 6')",
    "shell": "print(subprocess.run('echo a | cat; sleep 0.1 & wait', shell=True, capture_output=True))",
    "threads that end": """\
        for _ in range(50):
            thread = threading.Thread(target=work, args=(0.002,)); thread.start(); thread.join()
        print(threading.active_count(), len(os.listdir('/proc/self/task')))
        """,
    "daemon threads": "threading.Thread(target=work, args=(60,), daemon=True).start(); print('ends')",
    "an exception in a thread": """\
        thread = threading.Thread(target=lambda: 1 / 0); thread.start(); thread.join()
        """,
    "recursion": """\
        def deep(n): return n and deep(n - 1)
        for _ in range(200): deep(900)
        try:
            deep(10 ** 6)
        except RecursionError:
            print("too deep")
        """,
    "generators": """\
        def one(n):
            yield from one(n - 1) if n else ()
            yield n
        print(sum(sum(one(100)) for _ in range(30)))
        """,
    "code that is made and dropped": """\
        for n in range(3000):
            space = {}
            exec(f"def f{n}(x):\\n    return x + {n}\\n", space)
            assert space[f"f{n}"](1) == n + 1
        print("made")
        """,
    "tracer of its own": """\
        lines = 0
        def trace(frame, event, argument):
            global lines
            lines += 1
            return trace
        sys.settrace(trace)
        for _ in range(1000): work(0)
        sys.settrace(None)
        print(lines)
        """,
    "not dumpable": """\
        import ctypes
        print(ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)); work(); print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))
        """,
    "event loop": """\
        import asyncio
        async def main():
            print(await asyncio.gather(*(asyncio.to_thread(lambda n=n: n) for n in range(20))))
        asyncio.run(main())
        """,
    "workers": """\
        import concurrent.futures, multiprocessing
        with concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as pool:
            print(list(pool.map(abs, range(-5, 5))))
        print(waited())
        """,
}  # fmt: skip


@pytest.mark.parametrize("what", PROGRAMS)
def test_programs_go_as_bare(program: Runner, what: str) -> None:
    text = COMMON + textwrap.dedent(PROGRAMS[what])
    # GIVEN a program WHEN it is sampled THEN it prints and ends as bare
    outcome = alike(program.traced(text, env=SAMPLED), program.bare(text))
    # AND the sampler was there
    live = Live(outcome.path)
    assert live.header["sampler_pid"] > 0
    assert sum(sample.cpu for sample in live.samples()) > 0


def test_psutil_sees_the_same(program: Runner) -> None:
    pytest.importorskip("psutil")
    text = COMMON + (
        "import psutil\n"
        "me = psutil.Process()\n"
        "child = subprocess.Popen(['cat'], stdin=subprocess.PIPE)\n"
        "print([one.pid == child.pid for one in me.children(recursive=True)], me.num_threads(), len(me.open_files()))\n"
        "child.stdin.close()\n"
        "print(child.wait(), me.children(recursive=True), psutil.wait_procs(me.children()))\n"
    )
    alike(program.traced(text, env=SAMPLED), program.bare(text))


def test_a_pipeline_ends_with_the_program(program: Runner) -> None:
    # GIVEN a program in a pipeline WHEN it ends THEN so does what reads its output, although the sampler began with it
    program.write(COMMON + "print('x' * 5000)")
    env = {**SAMPLED, "PYIO_TRACE": "1", "PYIO_TRACE_QUIET": "1", "PYIO_TRACE_OUTPUT": "run.pyio"}
    words = ["sh", "-c", '"$0" program.py 2>&1 | tee copy.txt | wc -c', sys.executable]
    outcome = succeeded(program.command(words, env))
    assert outcome.stdout.split() == ["5001"]
    assert (program.folder / "copy.txt").read_text() == "x" * 5000 + "\n"
    assert Live(outcome.path).samples()


@pytest.mark.slow
def test_a_thousand_short_children(program: Runner) -> None:
    text = COMMON + (
        "ended = 0\n"
        "for _ in range(250):\n"
        "    for _ in range(4): fork(lambda: None)\n"
        "    for _ in range(4): ended += os.wait()[1] == 0\n"
        "print(ended, waited(), children())\n"
    )
    alike(program.traced(text, env=SAMPLED), program.bare(text))


@pytest.mark.parametrize("tracer", ["strace", "gdb"])
def test_beside_another_tracer(program: Runner, tracer: str) -> None:
    # GIVEN a program that a debugger holds
    words = {
        "strace": ["strace", "-f", "-o", "/dev/null", "-e", "trace=none"],
        "gdb": ["gdb", "-q", "-batch", "-return-child-result", "-ex", "run", "-ex", "quit", "--args"],
    }[tracer]
    if not shutil.which(tracer) or subprocess.run([*words, "true"], capture_output=True, check=False).returncode:
        pytest.skip(f"no {tracer} that may trace")
    program.write(COMMON + "work(0.3); print('done', waited(), flush=True); sys.exit(7)")
    env = {**SAMPLED, "PYIO_TRACE": "1", "PYIO_TRACE_QUIET": "1", "PYIO_TRACE_OUTPUT": "run.pyio"}
    # WHEN it is sampled as well THEN both see it, and it goes as usual
    outcome = program.command([*words, sys.executable, "program.py"], env)
    assert outcome.status == 7 and "done 10" in outcome.stdout
    assert any("work" in sample.functions for sample in Live(outcome.path).samples())


HARMED = """\
import multiprocessing
def reads(n):
    for _ in range(200):
        with open(sys.argv[0]) as file:
            file.read()
workers = [multiprocessing.get_context("fork").Process(target=reads, args=(n,)) for n in range(2)]
for worker in workers: worker.start()
for worker in workers: worker.join()
reads(0)
print([worker.exitcode for worker in workers], waited())
"""


@pytest.mark.slow
@pytest.mark.soak
def test_a_sampler_that_is_stopped_continued_and_killed_at_random(program: Runner) -> None:
    # GIVEN a helper that stops, continues or kills the sampler at random moments
    harm = program.write(
        """\
        import os, random, signal, sys, time
        chance, log = random.Random(int(sys.argv[1])), sys.argv[2]
        def sampler():
            for pid in filter(str.isdigit, os.listdir("/proc")):
                try:
                    if open(f"/proc/{pid}/comm").read() != "pyio-trace-samp\\n":
                        continue
                    if any(os.readlink(f"/proc/{pid}/fd/{fd}") == log for fd in os.listdir(f"/proc/{pid}/fd")):
                        return int(pid)
                except OSError:
                    pass
        while os.getppid() == int(sys.argv[3]):
            pid = sampler()
            if pid:
                number = chance.choice([signal.SIGSTOP, signal.SIGCONT, signal.SIGCONT, signal.SIGSTOP, signal.SIGKILL])
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    pass
            time.sleep(chance.random() / 50)
        """,
        "harm.py",
    )
    bare = program.bare(COMMON + HARMED)
    for seed in range(rounds(4, 200)):
        log = program.folder / f"run-{seed}.pyio"
        words = [sys.executable, harm, seed, log, os.getpid()]
        with subprocess.Popen(list(map(str, words))) as helper:
            # WHEN a program runs beside it
            traced = program.traced(COMMON + HARMED, log=log.name, env=SAMPLED)
            helper.send_signal(signal.SIGKILL)
        # THEN the program goes as bare, and the log is whole
        alike(traced, bare)
        reads = traced.select(op="open", layer="posix", path=program.folder / "program.py")
        assert len(reads) >= 600
