"""The sampler beside a run: what it finds, whom it looks at, and that the program does not notice it."""

from __future__ import annotations

import ctypes
import errno
import itertools
import os
import random
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pyio_trace import native
from pyio_trace.log import layout
from tests.support.programs import Outcome, Runner, alike, clean_environment, succeeded
from tests.support.samples import Live, Sample
from tests.support.soak import rounds
from tests.support.waiting import gone, wait_until

SAMPLED = {"PYIO_TRACE_SAMPLE": "100"}
PR_SET_CHILD_SUBREAPER = 36

WHERE = """\
import sys, threading, time

def heavy():
    end = time.thread_time() + 0.6
    while time.thread_time() < end:
        sum(range(2000))

def light():
    end = time.thread_time() + 0.2
    while time.thread_time() < end:
        sorted(range(1000))

def sleeps():
    time.sleep(0.4)

def waits(lock):
    with lock:
        pass

heavy()
light()
sleeps()
lock = threading.Lock()
lock.acquire()
thread = threading.Thread(target=waits, args=(lock,))
thread.start()
time.sleep(0.4)
lock.release()
thread.join()
"""


def _in(samples: list[Sample], function: str) -> list[Sample]:
    return [sample for sample in samples if function in sample.functions]


def _down_to(sample: Sample, function: str) -> tuple[tuple[str, int, str], ...]:
    """Its frames from the innermost to that function's; none without it."""
    functions = [name for _file, _line, name in sample.frames]
    return sample.frames[: functions.index(function) + 1] if function in functions else ()


def _line(text: str, part: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), 1) if part in line)


@pytest.mark.parametrize("mode", ["trace", "profile"])
def test_where_the_time_goes(program: Runner, mode: str) -> None:
    # GIVEN a program that computes 0.6 s in one function and 0.2 s in another, sleeps, and has a thread wait for a lock
    # WHEN it is sampled
    outcome = succeeded(program.traced(WHERE, env={**SAMPLED, "PYIO_TRACE_MODE": mode}))
    live = Live(outcome.path)
    samples = live.samples()
    # THEN the processor time is where the program spent it
    assert (live.header["sampling_hz"], live.header["sampler_refused"]) == (100, 0)
    heavy, light = (sum(sample.cpu for sample in _in(samples, name)) for name in ("heavy", "light"))
    assert 0.6 < heavy / (heavy + light) < 0.9
    # AND at its lines
    loops = {sample.frames[0] for sample in _in(samples, "heavy")}
    assert ("program.py", _line(WHERE, "sum(range(2000))"), "heavy") in loops
    # AND what did not compute says what it waited for
    for function, state in (("sleeps", "sleep"), ("waits", "lock")):
        found = _in(samples, function)
        waited = sum(sample.duration for sample in found if sample.state == state)
        assert waited > 0.5 * sum(sample.duration for sample in found) > 0
    # AND stacks are whole
    assert all(
        sample.functions[-1] in ("<module>", "Thread._bootstrap", "_find_and_load")
        for sample in samples
        if sample.frames and sample.frames[-1][0] in ("program.py", "threading.py") and not sample.flags
    )


WOKEN = """\
import os, subprocess, sys, time
one = min(os.sched_getaffinity(0))
os.sched_setaffinity(0, [one])
busy = [subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"], env={}) for _ in range(2)]
os.nice(19)

def wakes():
    end = time.monotonic() + 1.5
    while time.monotonic() < end:
        time.sleep(0.001)

try:
    wakes()
finally:
    for one in busy:
        one.kill()
        one.wait()
"""


def test_a_woken_thread_that_waits_for_a_processor_is_not_asleep(program: Runner) -> None:
    # GIVEN a program that only sleeps, a millisecond at a time, and shares its processor with two of higher priority
    outcome = succeeded(program.traced(WOKEN, env=SAMPLED))
    # THEN it was found ready at the line at which it had slept
    sleeping = _line(WOKEN, "time.sleep(0.001)")
    states = {sample.state for sample in Live(outcome.path).samples() if (*sample.frames, ("", 0))[0][1] == sleeping}
    assert "running" in states


SHORT_CALLS = """\
import time

def called(word):
    return inner(word)

def inner(word):
    return len(word.split())

def loop(words):
    for word in words:
        n = called(word)
        n += 1
        n -= 1
        n *= 2

words = ["a b c d"] * 20000
end = time.thread_time() + 1.5
while time.thread_time() < end:
    loop(words)
"""


def test_a_call_is_at_the_line_that_made_it(program: Runner) -> None:
    # GIVEN a loop whose calls return after some hundred nanoseconds, less than it takes to read the stack
    # WHEN it is sampled
    samples = Live(succeeded(program.traced(SHORT_CALLS, env={"PYIO_TRACE_SAMPLE": "1000"})).path).samples()
    # THEN hardly a sample has the function beneath a line that does not call it
    loops = [(sample.cpu, frames[-1]) for sample in samples for frames in [_down_to(sample, "loop")] if len(frames) > 1]
    elsewhere = sum(cpu for cpu, (_file, line, _function) in loops if line != _line(SHORT_CALLS, "n = called"))
    assert elsewhere < 0.02 * sum(cpu for cpu, _ in loops) > 0


def test_runs_of_a_thread_do_not_overlap(program: Runner) -> None:
    # GIVEN a sampled program WHEN its runs of equal samples are put in order
    samples = Live(succeeded(program.traced(WHERE, env=SAMPLED)).path).samples()
    for tid in {sample.tid for sample in samples}:
        own = sorted((sample for sample in samples if sample.tid == tid), key=lambda sample: sample.begin)
        # THEN no two overlap by more than 1 us, the clock's error, and each has at least one sample
        assert all(one.begin + one.duration <= other.begin + 1000 for one, other in itertools.pairwise(own))
        assert all(0 < sample.samples <= 65535 for sample in own)


FAMILY = """\
import multiprocessing, os, subprocess, sys, time

def spin(seconds=0.25):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass

def forked():
    spin()

def spawned():
    print("spawned", os.getpid(), flush=True)
    spin()

if __name__ == "__main__":
    child = os.fork()
    if child == 0:
        print("forked", os.getpid(), flush=True)
        forked()
        os._exit(0)
    os.waitpid(child, 0)
    process = multiprocessing.get_context("spawn").Process(target=spawned)
    process.start()
    process.join()
    code = "import os, program\\ndef started(): program.spin()\\nprint('started', os.getpid(), flush=True); started()"
    subprocess.run([sys.executable, "-c", code], check=True)
    print("became", os.getpid(), flush=True)
    os.execv(sys.executable, [sys.executable, "-c", "import program\\ndef became(): program.spin()\\nbecame()"])
"""


def test_every_process_of_the_run(program: Runner) -> None:
    # GIVEN a program that forks, spawns, starts other programs, and in the end calls exec
    # WHEN it is sampled
    env = {**SAMPLED, "PYTHONPATH": str(program.folder)}
    outcome = succeeded(program.traced(FAMILY, env=env))
    samples = Live(outcome.path).samples()
    # THEN the samples of each process are at the line where it computes
    for name, pid in (line.split() for line in outcome.stdout.splitlines()):
        assert [one for one in _in(samples, name) if one.pid == int(pid) and "spin" in one.functions and one.cpu], name


HARMED = """\
import os, signal, sys, time, waiting

def sampler():
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/comm") as comm, open(f"/proc/{name}/maps") as maps:
                if comm.read().startswith("pyio-trace-sam") and sys.argv[2] in maps.read():
                    return int(name)
        except OSError:
            continue

def work(n):
    for i in range(n):
        with open(sys.argv[3], "a") as file:
            file.write("line\\n")

pid = None
def found():
    global pid
    pid = sampler()
    return pid
waiting.wait_until(found, "the sampler")
end = time.thread_time() + 0.2
while time.thread_time() < end:
    pass
os.kill(pid, int(sys.argv[1]))
work(100)
print(pid)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_sampler_that_is_killed_or_stopped_harms_nothing(program: Runner, number: signal.Signals) -> None:
    program.write_waiting()
    path, data = program.folder / "run.pyio", program.folder / "data.txt"
    # GIVEN a program beside which the sampler is killed or stopped WHEN it goes on and ends
    outcome = succeeded(program.traced(HARMED, int(number), path, data, env=SAMPLED))
    sampler = int(outcome.stdout)
    # THEN it is gone when the program ends, all operations are in the log, and so are the samples taken before
    assert gone(sampler)
    assert len(outcome.select(op="write", layer="posix", path=data)) == 100
    assert sum(sample.cpu for sample in Live(path).samples()) > 0


NOTICED = """\
import json, os, signal, sys
children = [open(f"/proc/self/task/{task}/children").read() for task in os.listdir("/proc/self/task")]
told = []
signal.signal(signal.SIGCHLD, lambda *_: told.append(1))
try:
    waited = os.waitpid(-1, os.WNOHANG)
except ChildProcessError as problem:
    waited = problem.errno
fds = [fd for fd in range(256) if os.path.exists(f"/proc/self/fd/{fd}")]
if sys.argv[1] == "True":
    children = None  # of one that would adopt it, the sampler is a child: test_sampled_reapers.py
print(children, told, waited, fds, os.getpid() == os.getsid(0), signal.pthread_sigmask(signal.SIG_BLOCK, []))
"""


@pytest.mark.parametrize("reaper", [False, True])
def test_the_program_does_not_notice(program: Runner, reaper: bool) -> None:
    # GIVEN a program that looks for children, signals and descriptors, as a subreaper and as an ordinary process
    def before() -> None:
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    text = NOTICED
    first = before if reaper else None
    # WHEN it is sampled THEN it sees what it sees untraced
    outcome = alike(program.traced(text, reaper, env=SAMPLED, before=first), program.bare(text, reaper, before=first))
    # AND the sampler was there
    header = Live(succeeded(outcome).path).header
    assert (header["sampler_refused"], header["sampler_pid"] > 0) == (0, True)


FORKED = """\
import os
pid = os.fork()
if pid:
    os.waitpid(pid, 0)
"""
PART = """\
import os, pyio_trace
with pyio_trace.trace("part.pyio", sample=100):
    pass
pid = int.from_bytes(open("part.pyio", "rb").read()[int(__import__("sys").argv[1]):][:4], "little")
print(os.path.exists(f"/proc/{pid}") and open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0], pid)
"""
OUTLIVED = """\
import os, time

def on():
    end = time.monotonic() + 0.3
    while time.monotonic() < end:
        time.sleep(0.01)

parent = os.getpid()
if os.fork() == 0:
    os.close(1), os.close(2)
    while os.getppid() == parent:
        time.sleep(0.001)
    on()
    os._exit(0)
"""


@pytest.mark.parametrize("text", ["pass", FORKED])
def test_it_has_ended_when_the_run_has(program: Runner, text: str) -> None:
    # GIVEN a sampled program WHEN it has ended
    live = Live(succeeded(program.traced(text, env=SAMPLED)).path)
    # THEN so has its sampler, so that nothing holds the log
    assert live.header["sampler_pid"] > 0
    assert gone(int(live.header["sampler_pid"]))


def test_it_has_ended_when_the_part_that_was_traced_has(program: Runner) -> None:
    # GIVEN a program that traces a part of itself WHEN that has ended
    outcome = succeeded(program.bare(PART, layout.HEADER.fields["sampler_pid"][1]))
    # THEN so has the sampler, while the program goes on
    state, pid = outcome.stdout.split()
    assert (state in ("False", "Z"), int(pid) > 0) == (True, True)


def test_it_stays_for_a_child_that_outlives_the_first_process(program: Runner) -> None:
    # GIVEN a program whose child outlives it WHEN both have ended
    path = succeeded(program.traced(OUTLIVED, env=SAMPLED)).path
    sampler = int(Live(path).header["sampler_pid"])
    wait_until(lambda: gone(sampler), "the end of the sampler")
    # THEN there are samples of the time when only the child ran
    assert sum(sample.samples for sample in _in(Live(path).samples(), "on")) > 5


@pytest.mark.parametrize("option", [{"PYIO_TRACE_SAMPLE": "off"}, {**SAMPLED, "PYIO_TRACE_MODE": "ring"}])
def test_off(program: Runner, option: dict[str, str]) -> None:
    # GIVEN a program with sampling off, or in mode ring WHEN it runs
    live = Live(succeeded(program.traced("open(__file__).read()", env=option)).path)
    # THEN there is no sampler
    assert (live.header["sampling_hz"], live.samples()) == (0, [])


@pytest.mark.parametrize(("options", "hz"), [("", 0), (", sample=50", 50)])
def test_tracing_a_part_of_a_program_samples_only_if_told(program: Runner, options: str, hz: int) -> None:
    # GIVEN a program that traces a part of itself WHEN it runs
    text = f"import pyio_trace\nwith pyio_trace.trace('part.pyio'{options}): pass"
    succeeded(program.bare(text))
    # THEN a sampler was started only if it asked for one
    assert Live(program.folder / "part.pyio").header["sampling_hz"] == hz


@pytest.mark.parametrize("launched", [True, False])
def test_a_run_is_sampled_unless_told_otherwise(program: Runner, launched: bool) -> None:
    # GIVEN a script WHEN it is launched, or runs with PYIO_TRACE=1
    path, script = program.folder / "run.pyio", program.write("pass")
    if launched:
        outcome = program.command([sys.executable, "-m", "pyio_trace", "-q", "-o", path, script])
    else:
        env = {"PYIO_TRACE": "1", "PYIO_TRACE_OUTPUT": str(path), "PYIO_TRACE_QUIET": "1"}
        outcome = program.command([sys.executable, script], env)
    # THEN it was sampled
    assert outcome.status == 0 and Live(path).header["sampling_hz"] == 100


# ---- forged logs ----------------------------------------------------------------------------

VICTIM = """\
import array, mmap, os, random, sys
with open(sys.argv[1], "r+b") as file:
    log = mmap.mmap(file.fileno(), 0) if sys.argv[2] == "ours" else None
words = array.array("Q", bytes(8 << 13))
start, chance = words.buffer_info()[0], random.Random(int(sys.argv[3]))
for at in range(len(words)):  # pointers that lead on and on, numbers of the thread, sizes
    pointer = start + 8 * chance.randrange(len(words) - 64)
    words[at] = chance.choice([pointer, pointer, pointer, os.getpid(), chance.randrange(256), chance.getrandbits(64)])
print(start, flush=True)
sys.stdin.read()
"""
FR_SIZE, CO_BYTES, ASCII_DATA, WIDE_DATA, BYTES_DATA = 17, 24, 27, 28, 30  # among the halves of struct pt_layout
#: Words that a forger would try.
WORDS = [0, 1, 7, 8, 255, 504, 505, 512, 4096, 32768, 65528, 65535]


def _forged(outcome: Outcome, pid: int, addresses: list[int], seed: int) -> Path:
    """The log as that of a run that goes on, whose only process is `pid`, with a layout that leads anywhere."""
    path = outcome.path.with_name(f"forged-{seed}.pyio")
    content = bytearray(outcome.path.read_bytes())
    header = np.frombuffer(content, layout.HEADER, 1)
    header["sampling_hz"], header["sampler_refused"], header["full_reason"] = 1000, 0, 0
    at = int(header["processes"][0]) << layout.ID_SHIFT
    entry = np.frombuffer(content, layout.PROCESS_ENTRY, 1, at)
    entry["pid"], entry["followed"], entry["end_kind"], entry["stack_state"] = pid, 1, layout.END_UNKNOWN, 1
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    entry["start_time"] = int(fields[19])
    chance = random.Random(seed)
    start = at + int(layout.PROCESS_ENTRY.fields["layout"][1])  # type: ignore[index]
    shorts = np.array([chance.choice(WORDS) for _ in range(31)] + [0x30B], "<u2")
    if seed % 2 == 0:  # offsets that pass, so that addresses are followed
        shorts[:31] = [8 * chance.randrange(4) for _ in range(31)]
        for size, value in ((FR_SIZE, 72), (CO_BYTES, 184), (ASCII_DATA, 48), (WIDE_DATA, 56), (BYTES_DATA, 32)):
            shorts[size] = value
        addresses = addresses[:1]
    words = np.array([0, 0xE0, 1, chance.choice([2, 0xFFFFFFFF])], "<u4").tobytes()
    content[start : start + 88] = np.array([chance.choice(addresses)], "<u8").tobytes() + words + shorts.tobytes()
    path.write_bytes(content)
    path.chmod(0o600)
    os.truncate(path, int(header["budget"][0]))
    return path


@pytest.mark.soak
@pytest.mark.parametrize("whose", ["ours", "strangers"])
def test_a_forged_entry_leads_nowhere(program: Runner, whose: str) -> None:
    # GIVEN logs whose process entry names a process of this user, with a random address and random offsets
    outcome = succeeded(program.traced("pass", env={"PYIO_TRACE_MAX_LOG_SIZE": "1M", "PYIO_TRACE_SAMPLE": "off"}))
    victim_file = program.write(VICTIM, "victim.py")
    for seed in range(rounds(6, 250)):
        mapped = program.folder / f"forged-{seed}.pyio"
        mapped.write_bytes(b"\0" * 4096)
        words = [sys.executable, str(victim_file), str(mapped), whose, str(seed)]
        with subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=clean_environment()
        ) as victim:
            assert victim.stdin is not None
            assert victim.stdout is not None
            start = int(victim.stdout.readline())
            addresses = [start, 8, 2**63, 2**64 - 8, int(_first_mapping(victim.pid), 16)]
            path = _forged(outcome, victim.pid, addresses, seed)
            before = path.stat().st_ino
            # WHEN the sampler is started beside one
            with open(path, "r+b") as log:
                program_path = native.program("pyio-trace-sample") if native.core else _installed()
                sampler = subprocess.Popen([program_path, str(log.fileno())], pass_fds=[log.fileno()])
            wait_until(lambda p=path: _used(p) or _refused(p), "the sampler to look")
            victim.stdin.close()
        # THEN it ends normally when that process does, and has read no process outside the run
        assert sampler.wait() == 0
        assert path.stat().st_ino == before
        assert _refused(path) == (errno.EACCES if whose == "strangers" else 0)
        assert whose == "ours" or not Live(path).samples()


def _first_mapping(pid: int) -> str:
    found = re.match("[0-9a-f]+", Path(f"/proc/{pid}/maps").read_text())
    assert found
    return found[0]


def _header(path: Path) -> np.void:
    with path.open("rb") as file:
        row: np.void = np.frombuffer(file.read(layout.HEADER.itemsize), layout.HEADER, 1)[0]
    return row


def _used(path: Path) -> int:
    return int(_header(path)["sampler_cpu"])


def _refused(path: Path) -> int:
    return int(_header(path)["sampler_refused"])


def _installed() -> str:
    code = "from pyio_trace import native; print(native.program('pyio-trace-sample'))"
    words = [sys.executable, "-P", "-c", code]
    return subprocess.run(words, cwd="/", check=True, capture_output=True, text=True).stdout.strip()
