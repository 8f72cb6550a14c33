"""Random programs pause, switch modes, suppress, exclude, duplicate and fork: no offset in the log is wrong.

No model predicts the offsets: each program reads its positions from /proc, which is not recorded, and every transfer
has a size of its own, by which its row is found.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.programs import Runner, succeeded

PROGRAM = """\
import json, os, random, sys
import pyio_trace

seed, steps, extra = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3].split()
choose = random.Random(seed)
run = pyio_trace.current_run()
names = [os.path.abspath(f"{folder}/{n}") for folder in ("keep", "drop") for n in range(3)]
for folder in ("keep", "drop"):
    os.makedirs(folder, exist_ok=True)
open_files, told, paused, asked = {}, [], False, 1000

def place(fd):
    with open(f"/proc/self/fdinfo/{fd}") as info:
        return int(info.readline().split()[1])

def size():
    global asked
    asked += 1
    return asked

def transfer(what):
    fd = choose.choice(list(open_files))
    name = open_files[fd]
    n = size()
    if what == "read":
        moved = len(os.read(fd, n))
        told.append((os.getpid(), what, name, place(fd) - moved, moved, n))
    elif what == "write":
        moved = os.write(fd, bytes(n))
        told.append((os.getpid(), what, name, place(fd) - moved, moved, n))
    elif what == "sendfile":
        to = choose.choice(list(open_files))
        if open_files[to] != name and to not in appending:
            start = place(fd)
            moved = os.sendfile(to, fd, None, n)
            told.append((os.getpid(), what, name, start, moved, n))
    elif what == "pwrite":
        os.pwrite(fd, bytes(n), choose.randrange(20000))
    elif what == "lseek":
        os.lseek(fd, *choose.choice([(0, 0), (choose.randrange(9000), 0), (0, 2), (5, 1)]))
    elif what == "truncate":
        os.ftruncate(fd, choose.randrange(10000))
    elif what == "fstat":
        os.fstat(fd)
    elif what == "dup" and len(open_files) < 10:
        new = os.dup(fd)
        open_files[new] = name
        appending.discard(new)
        if fd in appending:
            appending.add(new)
    elif what == "close":
        os.close(fd)
        del open_files[fd]
        appending.discard(fd)

appending = set()

def step(depth):
    global paused, asked, told
    what = choose.choice(["open"] * 3 + ["read", "write"] * 5 + ["lseek", "pwrite", "truncate", "fstat", "close", "dup"]
                         + ["sendfile"] * 2 + extra * 2)
    if what == "open" and len(open_files) < 9:
        name = choose.choice(names)
        flags = choose.choice([0, 0, 0, os.O_APPEND, os.O_TRUNC, os.O_APPEND | os.O_TRUNC])
        fd = os.open(name, os.O_CREAT | os.O_RDWR | flags)
        open_files[fd] = name
        if flags & os.O_APPEND:
            appending.add(fd)
    elif what == "pause":
        paused = not paused
        run.pause() if paused else run.resume()
    elif what in ("trace", "profile", "ring"):
        run.mode = what
    elif what == "suppress" and open_files:
        with pyio_trace.suppress():
            transfer(choose.choice(["read", "write", "lseek", "pwrite", "sendfile"]))
            if open_files:
                transfer("fstat")
    elif what == "fork" and depth < 2:
        number = choose.randrange(1000)
        child = os.fork()
        if child == 0:
            choose.seed(number)
            asked, told = asked + 100000 * (depth + 1) + 100 * number, []
            for _ in range(choose.randrange(1, 15)):
                step(depth + 1)
            write_down()
            os._exit(0)
        os.waitpid(child, 0)
    elif open_files and what not in extra and what != "open":
        transfer(what)

def write_down():
    with open(f"told-{os.getpid()}.json", "w") as file:
        json.dump(told, file)

for _ in range(steps):
    step(0)
if paused:
    run.resume()
write_down()
"""

EVERYTHING = "pause trace profile ring suppress fork"


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "extra, env",
    [
        ("fork", {}),
        ("pause fork", {}),
        ("trace profile fork", {}),
        (EVERYTHING, {}),
        ("suppress", {"PYIO_TRACE_EXCLUDE": "op:read"}),
        ("suppress fork", {"PYIO_TRACE_INCLUDE": "op:write"}),
        ("fork", {"PYIO_TRACE_EXCLUDE": "op:pwrite,op:sendfile,op:lseek"}),
        ("fork pause", {"PYIO_TRACE_MIN_SIZE": "1040"}),
        ("fork", {"PYIO_TRACE_MAX_LOG_SIZE": "200K"}),
        ("fork", {"PYIO_TRACE_MODE": "ring", "PYIO_TRACE_RING_SIZE": "1M", "PYIO_TRACE_MAX_LOG_SIZE": "700K"}),
    ],
)
def test_no_offset_is_wrong(program: Runner, extra: str, env: Mapping[str, str], seed: int) -> None:
    # GIVEN a program that does this and that, as its seed says WHEN it is traced
    outcome = succeeded(program.traced(PROGRAM, seed, 150, extra, env=env))
    told = {}
    for path in program.folder.glob("told-*.json"):
        for pid, op, name, offset, moved, size in json.loads(path.read_text()):
            told[pid, op, size] = (name, offset, moved)
    # THEN what the log says of its transfers is so, or it says nothing
    rows = [
        row for row in outcome.select(layer="posix", errno=0) if (row["pid"], row["op"], row["bytes_requested"]) in told
    ]
    rows = [row for row in rows if not (row["detail"] or "").startswith('{"calls"')]
    # what a process writes down at its end is as long as its process ids are, perhaps as long as a transfer
    rows = [row for row in rows if not Path(row["path"] or "").name.startswith("told-")]
    assert rows
    for row in rows:
        name, offset, moved = told[row["pid"], row["op"], row["bytes_requested"]]
        assert row["path"] in (name, None)
        assert row["bytes_moved"] == moved
        assert row["file_offset"] in (offset, None), row
    if not env and extra == "fork":  # nothing was left out: hardly any is not known
        assert sum(row["file_offset"] is None for row in rows) < len(rows) / 4
