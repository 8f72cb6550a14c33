"""What the sampler may not read, has no room for, or cannot write: the program is unharmed, and the log says why."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import resource
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from pyio_trace.log import layout
from tests.support.programs import Outcome, Runner, alike, succeeded
from tests.support.samples import Live, Sample

SAMPLED = {"PYIO_TRACE_SAMPLE": "200"}
NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user takes root")

SPIN = """\
import ctypes, os, sys, time

def spin():
    end = time.thread_time() + 0.3
    while time.thread_time() < end:
        pass

def forks(then):
    child = os.fork()
    if child == 0:
        then()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    return child

def hides():
    assert ctypes.CDLL(None).prctl(4, 0, 0, 0, 0) == 0  # PR_SET_DUMPABLE
"""


def _may_not_trace_all() -> None:
    """Root without CAP_SYS_PTRACE, as in a container; others have no such right anyway."""
    ctypes.CDLL(None).prctl(24, 19, 0, 0, 0)  # PR_CAPBSET_DROP


def _may_not_read() -> None:
    """A seccomp filter that refuses process_vm_readv; the sampler inherits it."""
    number = {"x86_64": 310, "aarch64": 270}[platform.machine()]
    allow, refuse = 0x7FFF0000, 0x00050000 | errno.EPERM  # SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO
    steps = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, refuse), (0x06, 0, 0, allow)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *step) for step in steps))
    program = struct.pack("<H6xQ", len(steps), ctypes.addressof(code))
    libc = ctypes.CDLL(None)
    assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
    assert libc.prctl(22, 2, program, 0, 0) == 0  # PR_SET_SECCOMP


def _unread(samples: list[Sample], pid: int) -> int:
    """The processor time, in ns, of what the kernel alone tells of a process."""
    found = [sample for sample in samples if sample.pid == pid and sample.flags & layout.SAMPLE_UNREADABLE]
    assert not any(sample.frames for sample in found)
    return sum(sample.cpu for sample in found)


@pytest.mark.parametrize(
    ("before", "text", "why"),
    [
        pytest.param(_may_not_read, "spin(); print(os.getpid())", errno.EPERM, id="filter"),
        pytest.param(
            _may_not_trace_all, "hides(); spin(); print(os.getpid())", errno.EACCES, id="undumpable"
        ),
        pytest.param(
            _may_not_trace_all, "hides(); print(forks(spin))", errno.EACCES, id="undumpable-from-its-start"
        ),
        pytest.param(
            None, f"print(forks(lambda: (os.setuid({NOBODY}), spin())))", errno.EACCES, id="child-of-another-user",
            marks=as_root,
        ),
    ],
)  # fmt: skip
def test_of_what_may_not_be_read_the_processor_time_is_known(
    program: Runner, before: Callable[[], object] | None, text: str, why: int
) -> None:
    # GIVEN a program whose memory the sampler may not read
    # WHEN it is sampled
    outcome = succeeded(program.traced(SPIN + text, env=SAMPLED, before=before))
    # THEN the log says why its lines are not known, and how many processes that concerns
    live = Live(outcome.path)
    unread = 2 if text.startswith("hides(); print") else 1
    if "setuid" in text and not live.header["sampler_unread"]:  # root's sampler found it in time, before setuid
        assert live.header["sampler_refused"] == 0
        assert 0.2e9 < sum(sample.cpu for sample in live.samples() if sample.pid == int(outcome.stdout)) < 0.6e9
        return
    assert live.header["sampler_refused"] == why
    # (after setuid in one process, root's sampler accepts no new one; the parent is new too if found in that round)
    assert unread <= live.header["sampler_unread"] <= unread + ("setuid" in text)
    # AND has the exact processor time
    assert 0.2e9 < _unread(live.samples(), int(outcome.stdout)) < 0.6e9


def test_what_finds_no_room_in_the_log_is_counted(program: Runner) -> None:
    # GIVEN a program that fills its log, and then has more threads than the rest of a chunk has room for
    text = "import os\nfor n in range(40000): os.path.exists(f'/nowhere/{n}')\n" + THREADS.format(200)
    # WHEN it is sampled
    outcome = succeeded(program.traced(text, env={**SAMPLED, "PYIO_TRACE_MAX_LOG_SIZE": "1M"}))
    # THEN the samples that are missing from the log are counted
    live = Live(outcome.path)
    assert live.header["full_reason"] != 0
    assert live.header["samples_lost"] > 0
    # AND the log says so
    assert outcome.log.losses()["samples_lost"] == live.header["samples_lost"]


THREADS = """\
import os, threading
started, go_on = threading.Barrier({0} + 1), threading.Event()
def waits():
    started.wait()
    go_on.wait()
threads = [threading.Thread(target=waits) for _ in range({0})]
for thread in threads:
    thread.start()
started.wait()
end = os.times().user + 0.3
while os.times().user < end:
    pass
go_on.set()
for thread in threads:
    thread.join()
"""


def test_threads_that_it_has_no_descriptors_for_are_counted(program: Runner) -> None:
    # GIVEN a program with more threads than the sampler may have descriptors for
    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24))

    text = THREADS.format(30)
    # WHEN it is sampled THEN it is as untraced
    outcome: Outcome = alike(program.traced(text, env=SAMPLED, before=limited), program.bare(text, before=limited))
    # AND the log says that some were not looked at
    live = Live(outcome.path)
    assert (live.header["sampler_refused"], live.header["sampler_unseen"] > 0) == (errno.EMFILE, True)
    assert live.samples()


def test_a_program_whose_standard_files_are_closed_is_sampled(program: Runner) -> None:
    # GIVEN a program that is started with no descriptor at all WHEN it is sampled
    def closes() -> None:
        for number in range(3):
            os.close(number)

    outcome = program.traced(SPIN + "spin()", env=SAMPLED, before=closes)
    # THEN the sampler's descriptors 0, 1 and 2 are not the log
    assert outcome.status == 0
    live = Live(Path(outcome.path))
    assert (live.header["sampler_refused"], live.header["sampler_pid"] > 0) == (0, True)
    assert [sample for sample in live.samples() if "spin" in sample.functions]
