"""--follow=all: programs that are not Python are in the log of the Python program that starts them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import pyio_trace
from pyio_trace.log.live import LiveLog
from tests.fidelity import harness, strace
from tests.support.programs import Outcome, Row, Runner, alike, clean_environment, succeeded
from tests.support.waiting import wait_until

SOURCE = Path(__file__).parent.parent / "csrc" / "child.c"
SIZE = 100 * 4096
ALL = {"PYIO_TRACE_FOLLOW": "all"}

Compile = Callable[..., Path]


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compile:
    """Builds tests/csrc/child.c; skips the test where this compiler or these flags are not available."""
    folder = tmp_path_factory.mktemp("child")

    def build(compiler: str = "cc", *flags: str, name: str = "child") -> Path:
        path = folder / name
        if not path.exists():
            if not shutil.which(compiler):
                pytest.skip(f"there is no {compiler}")
            words = [compiler, *flags, "-o", str(path), str(SOURCE)]
            done = subprocess.run(words, capture_output=True, text=True)
            if done.returncode and flags:
                pytest.skip(f"{' '.join(words)}: {done.stderr}")
            assert done.returncode == 0, done.stderr
        return path

    return build


@pytest.fixture
def child(compiled: Compile) -> Path:
    return compiled()


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A folder that only the programs under test touch, with data in it."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "data.bin").write_bytes(bytes(range(256)) * (SIZE // 256))
    return folder


def follow(program: Runner, text: str, *args: object, **more: object) -> Outcome:
    return program.traced(text, *args, env={**ALL, **more.pop("env", {})}, **more)  # type: ignore[arg-type,dict-item]


RUN = "import subprocess, sys\nsys.exit(subprocess.run(sys.argv[2:], cwd=sys.argv[1]).returncode)\n"


def entry_of(outcome: Outcome, *argv: object) -> Row:
    """The process that ran this command."""
    [entry] = [e for e in outcome.processes if e["argv"] == [str(word) for word in argv] and e["ended"] != "exec"]
    return entry


def moved(outcome: Outcome, entry: Row, path: Path, *ops: str) -> int:
    return sum(row["bytes_moved"] for row in outcome.select(process=entry["index"], path=path, op=ops))


# ---- what is in the log


def test_streams_of_a_c_program(program: Runner, child: Path, work: Path) -> None:
    # GIVEN a C program that copies a file through C streams and leaves the end to exit()
    argv = [child, "stdio", "data.bin", "copy.bin"]
    # WHEN a traced Python runs it
    outcome = succeeded(follow(program, RUN, work, *argv))
    # THEN its calls on the streams are there, to the byte
    entry, source, copy = entry_of(outcome, *argv), work / "data.bin", work / "copy.bin"
    assert copy.read_bytes() == source.read_bytes()
    rows = outcome.select(process=entry["index"], layer="stdio")
    ops = [(row["op"], row["path"]) for row in rows]
    assert ops[:2] == [("fopen", str(source)), ("fopen", str(copy))] and ops[-1] == ("fclose", str(source))
    assert moved(outcome, entry, source, "fread") == moved(outcome, entry, copy, "fwrite") == SIZE
    assert sum(row["calls"] for row in rows if row["op"] == "fread") == -(-SIZE // 1000) + 1  # the last finds the end
    # THEN the process table leads from them to the line of Python
    assert (entry["followed"], entry["ended"], entry["start"]) == (True, "exit 0", "joined")
    assert entry["site"] == f"{program.folder}/program.py:2:<module>"
    assert (entry["call_stack"] or "").startswith(entry["site"]) and "subprocess.py" in entry["call_stack"]
    [start] = [row for row in outcome.rows if row["id"] == entry["started_by"]]
    assert start["op"] in ("execve", "posix_spawn") and start["site"] == entry["site"]
    assert outcome.log.losses() == {}


def test_a_child_among_hundreds(program: Runner) -> None:
    # GIVEN a shell that is not followed, whose hundreds of children are WHEN they join the log one after the other
    count = 600
    text = """
    import os, subprocess, sys
    loop = 'n=0; while [ $n -lt $2 ]; do LD_PRELOAD=$1 "$3" || exit 1; n=$((n+1)); done'
    words = ["sh", "-c", loop, "-", os.environ["LD_PRELOAD"], *sys.argv[1:]]
    sys.exit(subprocess.run(["env", "-u", "LD_PRELOAD", *words]).returncode)
    """
    true = shutil.which("true")
    outcome = succeeded(follow(program, text, count, true))
    # THEN each has an entry of its own, whose parent is that of the program that became the shell
    children = [entry for entry in outcome.processes if entry["argv"] == [true]]
    assert len(children) == len({entry["begin"] for entry in children}) == count
    [parent] = {entry["parent"] for entry in children}
    shell = outcome.processes[parent]
    assert shell["argv"][:1] == ["env"]
    told = {(entry["ppid"], entry["start"], entry["ended"]) for entry in children}
    assert told == {(shell["pid"], "joined", "exit 0")}
    # THEN the last ones came there by no more memory than the first: nobody looked at all entries for it
    entries = LiveLog(outcome.path).processes()
    joined = entries[np.isin(entries["pid"], [e["pid"] for e in children])]
    faults = joined["begin_account"]["minor_faults"].astype(np.int64)
    assert np.median(faults[-50:]) < np.median(faults[:50]) + 100


#: command -> the ops that move bytes from data.bin, by the name they have in our rows
COMMANDS = {
    "cp": (["cp", "data.bin", "copy.bin"], ("read", "copy_file_range")),
    "gzip": (["gzip", "-k", "data.bin"], ("read",)),
    "tar": (["tar", "cf", "data.tar", "data.bin"], ("read",)),
    "cat": (["cat", "data.bin"], ("read", "copy_file_range")),
    "sqlite3": (["sqlite3", "base.db", "create table t (n, x); insert into t values (1, 'a'); select * from t"], ()),
    "child": (["posix", "data.bin", "copy.bin"], ("read",)),
    "child forks": (["forks", "data.bin"], ("read",)),
}


RUN_EACH = """
import json, subprocess, sys
for folder, argv in json.loads(sys.argv[1]).items():
    print(folder, subprocess.run(argv, cwd=folder).returncode, flush=True)
"""


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.skipif(not strace.has_stacks(), reason="no strace that tells stacks")
def test_programs_against_strace(program: Runner, child: Path, work: Path, tmp_path: Path) -> None:
    # GIVEN programs of the system, and ours, each with a folder of its own
    argvs = {name: [str(child), *argv] if name.startswith("child") else argv for name, (argv, _) in COMMANDS.items()}
    argvs = {name: argv for name, argv in argvs.items() if shutil.which(argv[0])}
    for name in argvs:
        for side in ("bare", "traced"):
            shutil.copytree(work, tmp_path / side / name)
    # WHEN they are run untraced, and by a traced Python under strace
    script = program.write(RUN_EACH)
    bare = succeeded(program.command([sys.executable, script, json.dumps(argvs)], cwd=tmp_path / "bare"))
    words = [sys.executable, str(script), json.dumps(argvs)]
    run = harness.run_words(words, tmp_path / "traced", program.folder, ALL)
    # THEN each did the same, and all calls of its processes have their rows
    printed = run.output.replace("\r\n", "\n").replace("\r", "\n")
    assert (run.status, printed) == (0, bare.stdout + bare.stderr)
    assert run.result.unexplained == []
    assert "a program that is not Python" not in run.result.missing
    for name in argvs:
        path, reads = str(tmp_path / "traced" / name / "data.bin"), COMMANDS[name][1]
        data = [row for row in run.rows if row["path"] == path and row["layer"] == "posix"]
        assert sum(row["bytes_moved"] for row in data if row["op"] in reads) == (SIZE if reads else 0), name
    assert run.losses == {}


def test_a_rust_program(program: Runner, work: Path) -> None:
    # GIVEN a program written in Rust
    ruff = shutil.which("ruff", path=os.path.dirname(sys.executable)) or shutil.which("ruff")
    if not ruff:
        pytest.skip("ruff is not installed")
    (work / "code.py").write_text("value = 1\n" * 5000)
    # WHEN a traced Python runs it THEN its read of the file is there, to the byte
    argv = [ruff, "check", "--isolated", "--no-cache", "code.py"]
    outcome = succeeded(follow(program, RUN, work, *argv))
    entry = entry_of(outcome, *argv)
    assert moved(outcome, entry, work / "code.py", "read", "pread") == 5000 * len("value = 1\n")
    assert entry["site"] == f"{program.folder}/program.py:2:<module>"


# ---- lines

WAYS = {
    "subprocess.run": "subprocess.run([child, 'posix', 'data.bin', 'to'], check=True)",
    "shell": "subprocess.run(f'{child} posix data.bin to; true', shell=True, check=True)",
    "pipeline": "subprocess.run(f'cat data.bin | (cat; {child} posix data.bin to) > other', shell=True, check=True)",
    "os.posix_spawn": "os.waitpid(os.posix_spawn(child, [child, 'posix', 'data.bin', 'to'], os.environ), 0)",
    "os.system": "os.system(f'{child} posix data.bin to; true')",
    "os.popen": "os.popen(f'{child} posix data.bin to; true').close()",
    "C's popen": "libc.pclose(c_void_p(libc.popen(f'{child} posix data.bin to; true'.encode(), b'w')))",
    "by a C program": "subprocess.run([child, 'shell', f'{child} posix data.bin to; true'], check=True)",
    "os.execv": "pid = os.fork() or os.execv(child, [child, 'posix', 'data.bin', 'to']); os.waitpid(pid, 0)",
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_start_a_program(program: Runner, child: Path, work: Path, way: str) -> None:
    # GIVEN a Python that starts a program in this way, on its line 6
    text = f"""\
    import os, subprocess, sys
    from ctypes import CDLL, c_void_p
    libc = CDLL(None); libc.popen.restype = c_void_p
    os.chdir(sys.argv[1])
    child = sys.argv[2]
    {WAYS[way]}
    """
    # WHEN it is run traced
    outcome = succeeded(follow(program, text, work, child))
    # THEN the program's reads are there, and their process names that line
    entry = entry_of(outcome, child, "posix", "data.bin", "to")
    assert moved(outcome, entry, work / "data.bin", "read") == SIZE
    assert entry["site"] == f"{program.folder}/program.py:6:<module>"
    # THEN nobody is missing between it and the program, and everybody's end is known
    assert {e["ended"] for e in outcome.processes} <= {"exit 0", "exec"}
    assert {e["site"] for e in outcome.processes[1:]} == {entry["site"]}
    assert outcome.log.losses() == {}


def test_two_shells_at_once_with_one_command(program: Runner, child: Path, work: Path) -> None:
    # GIVEN two threads that are in system() with the same command, from two lines
    text = """\
    import os, sys, threading
    from waiting import wait_until
    os.chdir(sys.argv[1])
    for name in ("gate", "started"): os.mkfifo(name)
    started = os.open("started", os.O_RDWR)
    command = f"echo > started; {sys.argv[2]} wait gate; true"
    def one(): os.system(command)
    def two(): os.system(command)
    threads = [threading.Thread(target=work) for work in (one, two)]
    for thread in threads: thread.start()
    for thread in threads: os.read(started, 1)
    os.system("true; true")  # meanwhile
    def ended():
        try: os.close(os.open("gate", os.O_WRONLY | os.O_NONBLOCK))  # releases a reader that waits for a writer
        except OSError: pass  # nobody waits yet
        return not any(thread.is_alive() for thread in threads)
    wait_until(ended, "both commands' end")
    """
    program.write_waiting()
    # WHEN it is run traced THEN the log does not guess
    outcome = succeeded(follow(program, text, work, child))
    shells = [e for e in outcome.processes if e["argv"][:2] == ["sh", "-c"] and e["ended"] != "exec"]
    sites = [e["site"] for e in shells if "wait" in e["argv"][-1]]
    assert len(sites) == 2 and sites.count(None) >= 1
    # THEN the one with a command of its own has its line
    [other] = [e["site"] for e in shells if e["argv"][-1] == "true; true"]
    assert other == f"{program.folder}/program.py:12:<module>"


# ---- lives


def test_killed_in_the_middle_of_a_read(program: Runner, child: Path, work: Path) -> None:
    # GIVEN a C program that is killed while it waits for the first byte of a FIFO
    text = """\
    import os, signal, subprocess, sys
    from waiting import wait_for_reader
    os.chdir(sys.argv[1])
    os.mkfifo("queue")
    process = subprocess.Popen([sys.argv[2], "wait", "queue"])
    writer = os.open("queue", os.O_WRONLY)
    wait_for_reader(process.pid)
    process.kill()
    print(process.wait())
    """
    program.write_waiting()
    # WHEN it is run traced THEN the read is there, in flight, and what ended the program
    outcome = succeeded(follow(program, text, work, child))
    assert outcome.stdout.split() == [str(-signal.SIGKILL)]
    entry = entry_of(outcome, child, "wait", "queue")
    [row] = outcome.select(process=entry["index"], op="read", path=work / "queue")
    assert (row["duration"], row["bytes_moved"], row["bytes_requested"]) == (None, None, 4096)
    assert entry["ended"] == "signal 9 (SIGKILL)"


def test_program_that_closes_all_descriptors(program: Runner, child: Path, work: Path) -> None:
    outcome = succeeded(follow(program, RUN, work, child, "closeall", "data.bin"))
    entry = entry_of(outcome, child, "closeall", "data.bin")
    assert moved(outcome, entry, work / "data.bin", "read") == SIZE
    assert entry["ended"] == "exit 0"


def test_program_that_outlives_the_run(program: Runner, child: Path, work: Path) -> None:
    # GIVEN a Python that starts a C program in the background and ends; its log is to be packed
    text = """\
    import os, subprocess, sys
    os.chdir(sys.argv[1])
    os.mkfifo("queue")
    subprocess.Popen([sys.argv[2], "wait", "queue"], stdin=-3, stdout=-3, stderr=-3, start_new_session=True)
    os._exit(0)
    """
    # WHEN it is run traced THEN the log stays live
    outcome = follow(program, text, work, child, log="run.parquet")
    live = program.folder / "run.pyio"
    assert outcome.status == 0 and live.exists() and not (program.folder / "run.parquet").exists()
    # WHEN the program goes on THEN what it does is there
    with (work / "queue").open("wb", buffering=0) as queue:
        queue.write(b"x" * 100)
    outcome = Outcome(0, "", "", live)
    entry = entry_of(outcome, child, "wait", "queue")

    def ended() -> str:
        return str(pyio_trace.open(live).processes().to_pylist()[entry["index"]]["ended"])

    wait_until(lambda: ended() != "running", "the program's end")
    assert ended() == "exit 0"
    assert moved(Outcome(0, "", "", live), entry, work / "queue", "read") == 100


def test_program_started_in_the_last_moment(program: Runner, child: Path, work: Path) -> None:
    # GIVEN a Python that starts a C program and is gone before that has run its first instruction
    text = """\
    import os, sys
    os.chdir(sys.argv[1])
    os.posix_spawn(sys.argv[2], [sys.argv[2], "posix", "data.bin", "to"], os.environ)
    os._exit(0)
    """
    for _ in range(10):
        # WHEN it is run traced (the program has our end of the output: it is waited for) THEN all it did is there
        outcome = succeeded(follow(program, text, work, child))
        entry = entry_of(outcome, child, "posix", "data.bin", "to")
        assert moved(outcome, entry, work / "data.bin", "read") == SIZE
        assert outcome.log.losses() == {}


PIPELINES = [
    "cat data.bin | gzip -c | gzip -dc | cksum; echo ${PIPESTATUS[@]}",
    "set -o pipefail; cat missing | wc -c; exit 3",
    "cp data.bin x & wait; ls -l x | wc -l; rm x; kill -TERM $$",
    "read -r line < /proc/self/comm; echo $line; { echo a; echo b >&2; } | sort",
    "exec 5<data.bin; head -c 10 <&5 | wc -c; f() { return 7; }; f",
]


@pytest.mark.parametrize("line", PIPELINES)
def test_a_shell_notices_nothing(program: Runner, work: Path, line: str) -> None:
    # GIVEN a line of shell WHEN it is run by a traced Python and by a bare one
    text = "import subprocess, sys\nprint(subprocess.run(['bash', '-c', sys.argv[2]], cwd=sys.argv[1]), flush=True)\n"
    outcome, bare = follow(program, text, work, line), program.bare(text, work, line)
    # THEN it says the same and ends the same, and everybody in it is in the log
    alike(outcome, bare, lambda one: (one.status, sorted(one.stdout.split()), one.stderr))
    assert all(entry["followed"] for entry in outcome.processes)
    assert not any(entry["ended"].startswith("lost") for entry in outcome.processes)


# ---- who is not followed


def test_environment_without_us(program: Runner, child: Path, work: Path) -> None:
    # GIVEN children whose environment has been cleared, of the library or altogether
    text = """\
    import os, subprocess, sys
    os.chdir(sys.argv[1])
    unloaded = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    off = [{**os.environ, "PYIO_TRACE": word} for word in ("", "0", "false", "OFF", "no", "n")]
    for env in ({}, {"PATH": "/bin"}, unloaded, *off):
        subprocess.run([sys.argv[2], "posix", "data.bin", "to"], env=env, check=True)
    """
    # WHEN it is run traced THEN none of them is in the log, and the losses say so
    outcome = succeeded(follow(program, text, work, child))
    assert outcome.select(path=work / "data.bin", op="read") == []
    losses = outcome.log.losses()
    assert losses["unfollowed"] == 9
    assert losses["unfollowed_children"] == [[str(child), "posix", "data.bin", "to"]] * 9
    assert outcome.stderr == ""


def test_a_program_left_out_by_name(program: Runner, child: Path, work: Path) -> None:
    # GIVEN two programs, one of which the user does not want WHEN they are run traced
    line = f"{child} posix data.bin to; cat data.bin > other"
    env = {"PYIO_TRACE_EXCLUDE": "process:child"}
    outcome = succeeded(follow(program, RUN, work, "sh", "-c", line, env=env))
    # THEN it has no rows and says why, and the other has its own
    entry, other = entry_of(outcome, child, "posix", "data.bin", "to"), entry_of(outcome, "cat", "data.bin")
    assert outcome.select(process=entry["index"]) == [] and "process:" in entry["note"]
    assert moved(outcome, other, work / "data.bin", "read", "copy_file_range") == SIZE


OTHERS = {
    "static": (("cc", "-static"), "{}: statically linked, cannot be followed"),
    "musl": (("musl-gcc",), ""),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_programs_that_cannot_be_followed(program: Runner, compiled: Compile, work: Path, kind: str) -> None:
    # GIVEN a program into which nothing can be preloaded, or with another libc
    how, reason = OTHERS[kind]
    path = compiled(*how, name=kind)
    # WHEN a traced Python runs it THEN it runs as it does untraced, and the log says that it is missing
    outcome = follow(program, RUN, work, path, "forks", "data.bin")
    assert (outcome.status, outcome.stderr) == (5, "")
    entry = entry_of(outcome, path, "forks", "data.bin")
    assert (entry["followed"], entry["ended"], entry["note"]) == (False, "exit 5", reason.format(path))
    assert outcome.log.losses()["unfollowed_children"] == [[str(path), "forks", "data.bin"]]


# ---- Python children

CHILD = """\
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
os.pread(fd, 100, 0)
with open(sys.argv[1], "rb") as file:
    file.read(1)
maps = {line.split()[-1] for line in open("/proc/self/maps") if "libpyio_trace" in line}
print(len(maps), sys.flags.no_site)
"""


@pytest.mark.parametrize("flag", ["-B", "-S", "-I"])
def test_python_children(program: Runner, work: Path, flag: str) -> None:
    # GIVEN a Python child that will, or will not, come to our .pth
    script = program.write(CHILD, "child.py")
    text = f"""\
    import subprocess, sys
    subprocess.run([sys.executable, {flag!r}, {str(script)!r}, sys.argv[1]], check=True)
    """
    # WHEN it is run traced
    data = work / "data.bin"
    outcome = succeeded(follow(program, text, data))
    # THEN it joined once, with one copy of the core in it
    assert outcome.stdout.split() == ["1", "1" if flag == "-S" else "0"]
    [entry] = [e for e in outcome.processes if e["start"] == "joined"]
    [row] = outcome.select(process=entry["index"], op="pread", path=data)
    lines = outcome.select(process=entry["index"], layer="app", path=data)
    if flag == "-S":  # THEN without site there are the POSIX operations
        assert (row["site"], lines, entry["stack_state"]) == (None, [], "none")
        assert "POSIX operations only" in entry["note"]
    else:  # THEN with it there is all that there is with --follow=python
        assert row["site"] == f"{script}:3:<module>"
        assert [line["op"] for line in lines] == ["open", "BufferedReader.read", "Buffered.close"]
        assert (entry["version"], entry["note"], entry["stack_state"]) == (sys.version.split()[0], "", "full")
        # what the interpreter did before its first line is counted as what imports do
        mine = [one for one in outcome.log.operations(["process", "time", "site", "imported"]).to_pylist()
                if one["process"] == entry["index"] and one["time"] < row["time"]]  # fmt: skip
        early = [one["imported"] for one in sorted(mine, key=lambda one: one["time"]) if one["site"] is None]
        assert early.count(True) > 20 and early == sorted(early, reverse=True)
    assert outcome.log.losses() == {}


# ---- the variable


def test_the_users_own_preload_is_kept(program: Runner, child: Path, work: Path, tmp_path: Path) -> None:
    # GIVEN a library that the user preloads, which says so in every program
    source, library = tmp_path / "own.c", tmp_path / "own.so"
    text = '#include <unistd.h>\n__attribute__((constructor)) static void c(void) { write(1, "own\\n", 4); }\n'
    source.write_text(text)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True, capture_output=True)
    # WHEN a Python runs a program, traced
    env = {"LD_PRELOAD": str(library)}
    outcome = succeeded(follow(program, RUN, work, child, "posix", "data.bin", "to", env=env))
    # THEN it is in both, and so are we
    assert outcome.stdout == "own\nown\n"
    entry = entry_of(outcome, child, "posix", "data.bin", "to")
    assert moved(outcome, entry, work / "data.bin", "read") == SIZE


@pytest.mark.parametrize("before", [None, "", "/some/lib.so", "/some/lib.so  /other.so:"])
@pytest.mark.parametrize("change", ["", "os.environ['LD_PRELOAD'] += ':/new.so'", "del os.environ['LD_PRELOAD']"])
def test_trace_puts_the_variable_back(program: Runner, before: str | None, change: str) -> None:
    # GIVEN a program that traces a part of itself and may change the variable during it
    text = f"""\
    import os, pyio_trace
    before = os.environ.get("LD_PRELOAD")
    with pyio_trace.trace("part.pyio", follow="all"):
        inside = os.environ["LD_PRELOAD"]
        {change or "pass"}
    print(repr((before, inside, os.environ.get("LD_PRELOAD"))))
    """
    path = program.write(text)
    done = subprocess.run([sys.executable, path], cwd=program.folder, capture_output=True, text=True,
                          env=clean_environment(LD_PRELOAD=before))  # fmt: skip
    # WHEN it is run THEN what was there stands first inside, and is all that is there afterwards
    given, inside, after = eval(done.stdout)
    assert inside == (f"{given}:" if given else "") + inside.rpartition(":")[2]
    assert inside.endswith("/libpyio_trace.so")
    kept = [*(given or "").replace(":", " ").split(), *(["/new.so"] if "new" in change else [])]
    if not change:
        assert after == given
    elif "del" in change:
        assert after is None
    else:
        assert (after or "").split(":") == kept


def test_a_path_that_cannot_be_preloaded(program: Runner, child: Path, work: Path) -> None:
    # GIVEN a package in a folder with a space in its name, and a program with a Python and another child
    package = Path(subprocess.run(
        [sys.executable, "-c", "import pyio_trace; print(pyio_trace.__path__[0])"],
        cwd="/", env=clean_environment(), capture_output=True, text=True, check=True).stdout.strip())  # fmt: skip
    place = program.folder / "a folder"
    shutil.copytree(package, place / "pyio_trace")
    text = """\
    import subprocess, sys
    import pyio_trace
    with pyio_trace.trace("part.pyio", follow="all"):
        subprocess.run([sys.argv[1], "posix", "data.bin", "to"], cwd=sys.argv[2], check=True)
    """
    # WHEN it is traced with --follow=all
    path = program.write(text)
    done = subprocess.run([sys.executable, path, child, work], cwd=program.folder, capture_output=True, text=True,
                          env=clean_environment(PYTHONPATH=str(place)))  # fmt: skip
    # THEN one line says that only Python children are followed, and the program goes on
    assert done.returncode == 0 and len(done.stderr.splitlines()) == 1 and "cannot be preloaded" in done.stderr
    losses = pyio_trace.open(program.folder / "part.pyio").losses()
    assert losses["unfollowed_children"] == [[str(child), "posix", "data.bin", "to"]]
