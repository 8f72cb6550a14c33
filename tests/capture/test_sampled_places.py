"""Processes of a run that see other files than the sampler does."""

from __future__ import annotations

import os

import pytest

from tests.support.programs import Runner, succeeded
from tests.support.samples import Live

#: How a process comes to see no /proc.
PLACES = {
    "chroot": "os.mkdir('jail'); os.chroot('jail'); os.chdir('/')",
    "hidden": (
        "assert libc.unshare(0x20000) == 0"  # CLONE_NEWNS
        "\nassert libc.mount(None, b'/proc', None, 1 << 18, None) == 0"  # MS_PRIVATE: what is mounted on it stays here
        "\nassert libc.mount(b'none', b'/proc', b'tmpfs', 0, None) == 0"
    ),
}

CHILD = """\
import ctypes, os, time
libc = ctypes.CDLL(None, use_errno=True)

def works():
    end = time.thread_time() + 0.3
    while time.thread_time() < end:
        pass

def here():
    works()

def there():
    works()

here()
{place}
assert not os.path.exists("/proc/self")
child = os.fork()
if child == 0:
    there()
    os._exit(0)
print(child, os.waitpid(child, 0)[1])
"""


@pytest.mark.parametrize("place", PLACES)
def test_a_child_without_proc_is_sampled(program: Runner, place: str) -> None:
    if os.geteuid():
        pytest.skip("only root may change its root folder, and what is mounted")
    # GIVEN a program that forks where there is no /proc, so that the child cannot find out when it was started
    text = CHILD.format(place=PLACES[place])
    # WHEN it is sampled
    outcome = succeeded(program.traced(text, env={"PYIO_TRACE_SAMPLE": "100"}))
    child, status = map(int, outcome.stdout.split())
    # THEN the child is found where it computes, as its parent is
    live = Live(outcome.path)
    found = {name for one in live.samples() if one.cpu for name in one.functions if name in ("here", "there")}
    assert (status, found, int(live.header["sampler_refused"])) == (0, {"here", "there"}, 0)
    assert {one.pid for one in live.samples() if "there" in one.functions} == {child}
