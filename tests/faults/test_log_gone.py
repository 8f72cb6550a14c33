"""The log is deleted, moved, made inaccessible, overwritten or truncated while in use: the program does not notice."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import pyio_trace
from pyio_trace.errors import PyioTraceError
from tests.support.programs import Runner, accounted, alike

pytestmark = pytest.mark.slow  # half a second each

#: Each thread, and a child, reads before and after the deed; another Python is started after it.
TEXT = """\
import os, random, shutil, subprocess, sys, threading
fd, name = os.open(sys.argv[1], os.O_RDONLY), "run.pyio"
with open("other", "wb") as file: file.write(bytes(300_000))
if not os.path.exists(name): open(name, "w").close()  # untraced
done, results = threading.Event(), []
def reads(times):
    for n in range(times):
        if len(os.pread(fd, 16, n)) != 16: raise SystemExit("short")
def work():
    reads(2000)
    done.wait()
    reads(20_000)
    results.append(True)
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads: thread.start()
reads(2000)
ours, theirs = os.pipe()
pid = os.fork()
if pid == 0:
    os.close(theirs)  # should the parent die, it goes on
    os.read(ours, 1)
    reads(5000)
    os._exit(7)
size = os.path.getsize(name)
DEED
os.write(theirs, b"x")
done.set()
for thread in threads: thread.join()
reads(20_000)
print(results, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
print(subprocess.run([sys.executable, "-c", "print('child')"], capture_output=True, text=True).stdout)
"""
READS = 4 * 22_000 + 5000

#: The records stay where they are: all of them are in the log, which is at that name afterwards.
HARMLESS = {
    "moved": ("os.rename(name, 'moved')", "moved"),
    "a second name": ("os.link(name, 'second'); os.unlink(name)", "second"),
    "nobody may open it": ("os.chmod(name, 0)", "run.pyio"),
    "another in its place": ("shutil.copy('other', 'new'); os.link(name, 'second'); os.replace('new', name)", "second"),
}

#: What was recorded is lost.
LOST = {
    "deleted": "os.unlink(name)",
    "its folder deleted": "os.unlink(name); os.mkdir(name)",
    "cut to nothing": "os.truncate(name, 0)",
    "cut within its header": "os.truncate(name, 100)",
    "cut in the middle": "os.truncate(name, 30_000)",
    "opened for writing by somebody": "open(name, 'w').close()",
    "another copied over it": "shutil.copy('other', name)",
    "another copied over it by cp": "subprocess.run(['cp', 'other', name], check=True)",
    "zeros all over it": "open(name, 'r+b').write(bytes(1 << 20))",
    "noise all over it": "open(name, 'r+b').write(random.Random(1).randbytes(1 << 20))",
    "ones all over it": "open(name, 'r+b').write(b'\\xff' * (1 << 20))",
    "cut and grown again": "os.truncate(name, 0); os.truncate(name, size)",
}


@pytest.mark.parametrize("deed", HARMLESS)
def test_the_log_loses_its_name(program: Runner, data: Path, deed: str) -> None:
    # GIVEN a program that does this to its log WHEN it is traced THEN its output is the same, and the log is complete
    line, place = HARMLESS[deed]
    bare = program.bare(TEXT.replace("DEED", line), data)
    for name in {"run.pyio", place} & set(os.listdir(program.folder)):
        (program.folder / name).unlink()
    alike(program.traced(TEXT.replace("DEED", line), data), bare)
    assert accounted(program.command(["true"], log=place), "pread", data) == READS


@pytest.mark.parametrize("flags", [[], ["-X", "faulthandler"]], ids=["", "faulthandler"])
@pytest.mark.parametrize("deed", LOST)
def test_the_log_is_lost(program: Runner, data: Path, deed: str, flags: list[str]) -> None:
    # GIVEN a program, also one with handlers of fatal signals, whose log is lost in this way WHEN it is traced
    bare = program.bare(TEXT.replace("DEED", LOST[deed]), data, flags=flags)
    path = program.folder / "run.pyio"
    path.rmdir() if path.is_dir() else path.unlink(missing_ok=True)
    outcome = program.traced(TEXT.replace("DEED", LOST[deed]), data, flags=flags)
    # THEN it goes on to its end as untraced; one line may say what became of the log
    assert (outcome.status, outcome.stdout) == (bare.status, bare.stdout)
    assert [line for line in outcome.stderr.splitlines() if not line.startswith("pyio-trace: ")] == []
    assert len(outcome.stderr.splitlines()) <= 1
    # THEN what is left can be read, or is said to be no log
    try:
        log = pyio_trace.open(path)
        log.operations()
        log.losses()
    except PyioTraceError:
        pass
