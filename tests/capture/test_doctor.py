"""The doctor inspects live processes and tries scripts; its answers are compared with what the process says itself."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pyio_trace.cli.doctor.loaded_objects import LEFT_ALONE
from pyio_trace.cli.doctor.sampling import sampling
from pyio_trace.running.foreign_files import open_inside
from tests.support.programs import Runner, clean_environment

ROOT = Path(__file__).parents[2]
WRITER = ROOT / "tests" / "csrc" / "writer.c"

#: Says what native.core sees in its own process, then waits.
SUBJECT = """
    import json, os, sqlite3, sys
    from pyio_trace.native import core
    with open("/proc/self/maps") as maps:
        ranges = [line.split()[0].split("-") for line in maps if line.rstrip().endswith("libpyio_trace.so")]
    ours = [(int(start, 16), int(end, 16)) for start, end in ranges]
    snapshot = core.got_snapshot()
    patched = [at for at, value in snapshot.items() if any(start <= value < end for start, end in ours)]
    print(json.dumps([patched, len(snapshot)]), flush=True)
    sys.stdin.read(1)
"""

#: The slots that the doctor finds patched, one by one.
SLOTS = """
import json, sys
from pyio_trace.cli.doctor import live_process, loaded_objects, process_memory
pid = int(sys.argv[1])
areas = process_memory.areas_of(pid)
with process_memory.Memory(pid) as mem:
    looking = loaded_objects.Inspection(pid, areas, mem, live_process.hooked_names())
    found = [one for one in looking.objects() if one.state in ("hooked", "partly", "not hooked")]
    slots = [slot for one in found for slot in looking.slots(one.path, one.base)]
print(json.dumps([[slot.at for slot in slots if not slot.reason], len(slots)]))
"""


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("doctor") / "writer.so"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", str(WRITER), "-o", str(path)], check=True)
    return path


@contextmanager
def alive(program: Runner, text: str, *args: object, traced: bool = True) -> Iterator[tuple[int, str]]:
    """A program that has said a line and waits: (pid, the line)."""
    extra = {"PYIO_TRACE": "1", "PYIO_TRACE_OUTPUT": "subject.pyio", "PYIO_TRACE_QUIET": "1"} if traced else {}
    process = subprocess.Popen(
        [sys.executable, str(program.write(text)), *map(str, args)], cwd=program.folder, text=True,
        env=clean_environment(**extra), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        yield process.pid, process.stdout.readline()
    finally:
        process.communicate("\n", timeout=240)
    assert process.returncode == 0


def doctor(program: Runner, *words: object) -> tuple[int, str, str]:
    done = program.command([sys.executable, "-m", "pyio_trace", "doctor", *words])
    return done.status, done.stdout, done.stderr


def report(program: Runner, *words: object) -> dict[str, Any]:
    status, out, err = doctor(program, "--format", "json", *words)
    assert status == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


def test_slots_of_a_live_process(program: Runner) -> None:
    """GIVEN a traced process with C extensions WHEN looked at from outside THEN the slots are those that the core finds
    inside, one by one, and their number is what the report has."""
    with alive(program, SUBJECT) as (pid, line):
        patched, total = json.loads(line)
        done = program.command([sys.executable, "-c", SLOTS, pid])
        seen, there = json.loads(done.stdout or f'["{done.stderr}", 0]')
        found = report(program, pid)
    assert sorted(seen) == sorted(patched) and len(patched) > 100
    assert there == total
    assert sum(one["patched"] for one in found["objects"]) == len(patched)
    by_name = {Path(one["path"]).name.partition(".")[0]: one for one in found["objects"]}
    assert by_name["libc"]["state"] == by_name["libpyio_trace"]["state"] == "left alone"
    assert any(name.startswith("libsqlite3") and one["patched"] for name, one in by_name.items())


def test_facts_of_a_live_process(program: Runner) -> None:
    with alive(program, SUBJECT) as (pid, _):
        facts = report(program, pid)["facts"]
        text = doctor(program, pid)[1]
    assert facts["process"].startswith(f"{pid}, ") and facts["process"].endswith("program.py")
    assert facts["log"] == str(program.folder / "subject.pyio")
    assert facts["python"].startswith("{}.{}.{}, ".format(*sys.version_info))
    assert (facts["tracing"], facts["stacks"], facts["mode"]) == ("on", "full", "trace")
    assert facts["log budget"].endswith("of 4 GiB used (<0.1 %)") and facts["log disk"].endswith("free")
    assert "log:" in text and "libc: what it calls is its own" in text


def test_an_object_that_is_not_patched_is_shown(program: Runner, writer: Path) -> None:
    """GIVEN a library loaded, and no symbol asked for since WHEN looked at THEN its functions are listed as not hooked,
    and why; once a symbol is asked for they are."""
    text = """
        import _ctypes, ctypes, sys
        library = ctypes.CDLL(sys.argv[1])
        if len(sys.argv) > 2:
            library.write_there
        print("ready", flush=True)
        sys.stdin.read(1)
    """
    with alive(program, text, writer) as (pid, _):
        [before] = [one for one in report(program, pid)["objects"] if one["path"] == str(writer)]
        assert f"0     3  {writer}" in doctor(program, pid)[1]
    with alive(program, text, writer, "use") as (pid, _):
        [after] = [one for one in report(program, pid)["objects"] if one["path"] == str(writer)]
    assert (before["state"], before["patched"]) == ("not hooked", 0)
    [(reason, names)] = before["unpatched"].items()
    assert "not patched yet" in reason and sorted(names) == ["close", "open", "write"]
    assert (after["state"], after["patched"], after["unpatched"]) == ("hooked", 3, {})


def test_slots_that_belong_to_others(program: Runner, writer: Path) -> None:
    """GIVEN a slot that another tool has taken since WHEN looked at THEN it is named, and so is the tool."""
    with alive(program, """
        import ctypes, sys
        from pyio_trace.native import core
        before = set(core.got_snapshot())
        library = ctypes.CDLL(sys.argv[1])
        library.write_there
        kept = ctypes.c_void_p.in_dll(library, "kept_open")
        kept.value = ctypes.cast(ctypes.CDLL("libsqlite3.so.0").sqlite3_open, ctypes.c_void_p).value
        print("ready", flush=True)
        sys.stdin.read(1)
        """, writer) as (pid, _):  # fmt: skip
        [one] = [one for one in report(program, pid)["objects"] if one["path"] == str(writer)]
    assert (one["state"], one["patched"]) == ("partly", 2)
    [(reason, names)] = one["unpatched"].items()
    assert reason.startswith("another tool's: leads to /") and "libsqlite3" in reason and names == ["open"]


def test_a_stretch_that_has_ended(program: Runner) -> None:
    with alive(program, """
        import pyio_trace, sys
        with pyio_trace.trace("stretch.pyio"):
            pass
        print("ready", flush=True)
        sys.stdin.read(1)
        """, traced=False) as (pid, _):  # fmt: skip
        status, out, _ = doctor(program, "--format", "json", pid)
        found = json.loads(out)
    assert status == 1 and not found["works"] and found["facts"]["tracing"].startswith(("off", "stopped"))
    assert all(one["patched"] == 0 for one in found["objects"])


@pytest.mark.parametrize(
    ("which", "slug"), [("none", "no-such-process"), ("untraced", "process-not-traced"), ("text", "no-such-script")]
)
def test_what_cannot_be_looked_at(program: Runner, which: str, slug: str) -> None:
    with alive(program, "import sys; print(flush=True); sys.stdin.read(1)", traced=False) as (pid, _):
        what = {"none": 4194304 + 7, "untraced": pid, "text": "nothing.py"}[which]
        status, out, err = doctor(program, what)
    assert (status, out) == (2, "") and err.count("\n") == 1 and err.endswith(f"[{slug}]\n")


# ---- what lies where a loaded object was may be anything

#: Maps a library as code, removes it, and lets something else be at the name that the kernel now tells.
PLANTED = """
    import mmap, os, shutil, stat, sys
    writer, kind = sys.argv[1:3]
    shutil.copy(writer, "x.so")
    with open("x.so", "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ | mmap.PROT_EXEC)
    os.unlink("x.so")
    planted = os.path.abspath("x.so (deleted)")
    if kind == "fifo":
        os.mkfifo(planted)
    elif kind == "link":
        os.symlink(writer, planted)
    elif kind == "device":
        os.mknod(planted, 0o600 | stat.S_IFCHR, os.makedev(1, 5))
    else:
        shutil.copy("huge.so", planted)
        os.truncate(planted, 1 << 40)
    print("ready", flush=True)
    sys.stdin.read(1)
"""


def claims_much(library: Path, path: Path) -> None:
    """A library whose dynamic section, and whose table of relocations, are said to have half a TiB."""
    raw = bytearray(library.read_bytes())
    at, count = int.from_bytes(raw[32:40], "little"), int.from_bytes(raw[56:58], "little")
    headers = range(at, at + 56 * count, 56)
    [dynamic] = [one for one in headers if raw[one : one + 4] == b"\2\0\0\0"]
    [*_, data] = [one for one in headers if raw[one : one + 4] == b"\1\0\0\0"]
    start = int.from_bytes(raw[dynamic + 8 : dynamic + 16], "little")
    for entry in range(start, start + 16 * 40, 16):
        if raw[entry] == 8:  # DT_RELASZ
            raw[entry + 8 : entry + 16] = (24 << 34).to_bytes(8, "little")
    for header in (dynamic, data):
        raw[header + 32 : header + 40] = (1 << 39).to_bytes(8, "little")
    path.write_bytes(raw)


@pytest.mark.parametrize("kind", ["fifo", "link", "device", "huge"])
def test_what_lies_where_an_object_was(program: Runner, writer: Path, kind: str) -> None:
    """GIVEN a process that has put a FIFO, a link out, a device or a file that claims a TiB where a loaded object was
    WHEN looked at, with 4 GB THEN that object is not readable, and the rest is told."""
    if kind == "device" and os.geteuid() != 0:
        pytest.skip("only root can make a device")
    claims_much(writer, program.folder / "huge.so")
    words = [sys.executable, "-m", "pyio_trace", "doctor", "--format", "json"]
    with alive(program, PLANTED, writer, kind, "\x1b[2J") as (pid, _):
        done = program.command(["sh", "-c", 'ulimit -v 4000000; exec "$@"', "sh", *words, pid])
        assert done.status == 0, done.stderr
        found = json.loads(done.stdout)["objects"]
        text = doctor(program, pid)[1]
    assert r"\x1b[2J" in text and "\x1b" not in text
    [one] = [one for one in found if one["path"].endswith("x.so (deleted)")]
    assert (one["state"], one["patched"]) == ("not readable", 0)
    assert sum(one["patched"] for one in found) > 0


def test_nothing_leads_out_of_a_process_root(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner/file").write_text("text")
    (tmp_path / "folder").symlink_to("inner")
    (tmp_path / "link").symlink_to("inner/file")
    os.mkfifo(tmp_path / "fifo")
    with open(open_inside(os.getpid(), f"{tmp_path}/inner/file")) as file:
        assert file.read() == "text"
    for name in ("folder/file", "link", "fifo", "inner", "inner/../inner/file", "/proc/self/root/etc/passwd"):
        with pytest.raises(OSError):
            open_inside(os.getpid(), f"{tmp_path}/{name}" if name[0] != "/" else name)
    with pytest.raises(FileNotFoundError):
        open_inside(os.getpid(), f"{tmp_path}/none")


# ---- a script


def test_a_script_is_run_and_looked_at(program: Runner, writer: Path) -> None:
    """GIVEN a script with arguments, a child, an exit status WHEN tried THEN it has run as it does alone, its output on
    stderr, and what it had loaded at its exit is in the report; its log is gone."""
    path = program.write("""
        import ctypes, mmap, os, sys
        from concurrent.futures import ThreadPoolExecutor
        ctypes.CDLL(sys.argv[1]).write_there(b"out", b"abc", 3)
        if os.fork() == 0:
            sys.exit(5)
        print("child", os.WEXITSTATUS(os.wait()[1]), sys.argv[2:])
        sys.exit(3)
    """, "script.py")  # fmt: skip
    status, out, err = doctor(program, "--format", "json", path, writer, "--flag", "x")
    found = json.loads(out)
    assert status == 0
    assert err == "child 5 ['--flag', 'x']\n"
    assert (program.folder / "out").read_bytes() == b"abc"
    assert found["facts"]["script"] == f"{path} has run to its end, status 3"
    assert [one["state"] for one in found["objects"] if one["path"] == str(writer)] == ["hooked"]
    states = {one["name"]: one["state"] for one in found["instruments"]}
    active = {name for name, state in states.items() if state == "active"}
    assert active == {"file objects", "mmap objects", "ThreadPoolExecutor", "threads", "concurrent"}
    assert states["numpy"] == states["asyncio tasks"] == "waiting"
    assert not Path(found["facts"]["log"]).exists()


def test_a_script_that_ends_without_pythons_exit(program: Runner) -> None:
    path = program.write("import os; os._exit(4)", "script.py")
    status, out, err = doctor(program, path)
    assert (status, out) == (2, "") and "status 4" in err and err.endswith("[script-not-seen]\n")


# ---- this installation


def test_a_trial(program: Runner) -> None:
    facts = report(program)["facts"]
    assert facts["trial"].endswith("operations on its file, at app and posix") and facts["stacks"] == "yes"
    free = hasattr(sys, "_is_gil_enabled") and not sys._is_gil_enabled()
    assert facts["sampler"].startswith("no: there is none" if free else "works: ")


@pytest.mark.parametrize(
    ("info", "looks", "lines", "said"),
    [
        ({}, 0, 0, "no: there is none for free-threaded"),
        ({"sampler_refused": 0}, 9, 9, "works: --sample HZ sees lines"),
        ({"sampler_refused": 0}, 9, 0, "not known: it has looked"),
        ({"sampler_refused": 0}, 0, 0, "not known: it has not looked within 2 s"),
        ({"sampler_refused": errno.ECHILD}, 0, 0, "no: none could stay beside the program"),
        ({"sampler_refused": errno.EAGAIN}, 0, 0, "no: there is no process number left"),
        ({"sampler_refused": errno.E2BIG}, 0, 0, "no: it could not be started (E2BIG)"),
    ],
)
def test_whether_there_can_be_a_sampler(info: dict[str, int], looks: int, lines: int, said: str) -> None:
    assert sampling(info and {"sampling_hz": 100, **info}, looks, lines).startswith(said)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"sys/kernel/yama/ptrace_scope": "2\n"}, ["Yama's ptrace_scope is 2", "sysctl kernel.yama.ptrace_scope=1"]),
        ({"sys/kernel/yama/ptrace_scope": "3\n"}, ["Yama's ptrace_scope is 3", "only a restart"]),
        ({"self/status": "CapEff:\t0000000000000000\nSeccomp:\t2\n"}, ["seccomp", "--cap-add SYS_PTRACE"]),
        ({"self/status": "CapEff:\t0000000000000000\nSeccomp:\t0\n"}, ["capability SYS_PTRACE is missing"]),
        ({"mounts": "proc /proc proc rw,nosuid,hidepid=invisible 0 0\n"}, ["hidepid", "remount,hidepid=0"]),
        ({"mounts": "proc /proc proc rw,hidepid=0 0 0\n", "self/status": "CapEff:\t0000003fffffffff\n"}, []),
        ({"self/status": "CapEff:\tzz\n"}, []),
    ],
)
def test_why_reading_is_forbidden_and_how_to_allow_it(tmp_path: Path, files: dict[str, str], said: list[str]) -> None:
    # GIVEN what /proc says where the kernel has refused the sampler
    for name, text in {"self/status": "CapEff:\t0000003fffffffff\nSeccomp:\t0\n", **files}.items():
        path = tmp_path / "proc" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    # WHEN asked THEN each cause that is there is named, with what allows it, and no other
    text = sampling({"sampling_hz": 100, "sampler_refused": errno.EPERM}, 3, 0, tmp_path)
    assert text.startswith("no: reading another process is forbidden") and all(part in text for part in said)
    assert text.count(";") <= 1 and (said or text == "no: reading another process is forbidden")


# ---- one rule in two places


def test_objects_left_alone_are_those_of_the_core() -> None:
    text = (ROOT / "csrc" / "core" / "patch" / "objects.c").read_text()
    body = text[text.index("bool pt_object_is_systems(const char *path)\n{") :].partition("};")[0]
    assert re.findall(r'"([^"]+)"', body) == list(LEFT_ALONE)
