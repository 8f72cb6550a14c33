"""The end of runs whose processes end together: one process packs, and leaves a log of each run."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pyio_trace.join.pack import one_for_all
from pyio_trace.join.sources.opening import open_log
from tests.support.programs import Runner, clean_environment, succeeded

#: Starts four ranks, as mpirun does.  Each rank opens a file of its own, and all end together.
LAUNCHER = """\
import os, subprocess, sys
barrier = os.pipe()
ranks = []
for rank in range(4):
    env = dict(os.environ, OMPI_COMM_WORLD_RANK=str(rank), OMPI_COMM_WORLD_SIZE="4")
    words = [sys.executable, "rank.py", str(rank), str(barrier[0])]
    ranks.append(subprocess.Popen(words, env=env, pass_fds=barrier[:1], stdout=subprocess.PIPE))
for process in ranks:
    process.stdout.read(1)
os.close(barrier[1])
sys.exit(max(process.wait() for process in ranks))
"""
RANK = """\
import os, sys
open(f"data-{sys.argv[1]}", "w").close()
os.write(1, b".")
os.read(int(sys.argv[2]), 1)
"""


def _started(program: Runner, words: list[object], env: dict[str, str | None]) -> tuple[str, list[str]]:
    """(stderr of the command, the ids of the processes in it that wrote a packed log), by strace."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("needs strace")
    (program.folder / "strace").mkdir()
    trace = program.folder / "strace" / "of"
    watched = ["strace", "-ff", "-qq", "-o", trace, "-e", "trace=linkat,link,rename,renameat,renameat2", *words]
    outcome = succeeded(program.command(watched, env=env))
    named = re.compile(r'^\w+\(.*(?:\.tmp|/proc/self/fd/\d+)".*\.parquet".* = 0$', re.MULTILINE)
    calls = {path.suffix: named.findall(path.read_text()) for path in trace.parent.iterdir()}
    return outcome.stderr, [process for process, found in calls.items() for _ in found]


def _opened(log: Path) -> set[str]:
    rows = open_log(log).operations(["layer", "op", "path"]).to_pylist()
    paths = {Path(row["path"]).name for row in rows if row["layer"] == "posix" and row["op"] == "open" and row["path"]}
    return {name for name in paths if name.startswith("data-")}


def test_ranks_of_a_job(program: Runner) -> None:
    # GIVEN four ranks of one launcher, each with a log of its own
    program.write(RANK, "rank.py")
    launcher = program.write(LAUNCHER, "launcher.py")
    env: dict[str, str | None] = {"PYIO_TRACE_OUTPUT": str(program.folder / "log-%r.parquet"), "COLUMNS": "1000"}
    # WHEN they end together
    words: list[object] = [sys.executable, launcher]
    text = launcher.read_text().replace('OMPI_COMM_WORLD_SIZE="4"', 'OMPI_COMM_WORLD_SIZE="4", PYIO_TRACE="1"')
    launcher.write_text(text)
    stderr, packers = _started(program, words, env)
    # THEN each has its packed log and no live one, and one process has packed those of several
    for rank in range(4):
        assert _opened(program.folder / f"log-{rank}.parquet") == {f"data-{rank}"}
    assert not list(program.folder.glob("*.pyio"))
    assert len(packers) == 4 and len(set(packers)) < 4
    # AND there is one summary for each packer, of the logs that it has packed
    assert stderr.count("\nnext: ") == len(set(packers))
    assert re.search(r"log-\d\.parquet  \(and \d more ranks?; ", stderr)


@pytest.mark.parametrize(
    "variables",
    [
        pytest.param('NO_RANK=str(rank), NO_SIZE="4"', id="no ranks"),
        pytest.param('SLURM_PROCID="0", SLURM_NTASKS="4"', id="in a batch job"),
    ],
)
def test_each_command_leaves_its_log(program: Runner, variables: str) -> None:
    # GIVEN four programs that are started together, and are no ranks or all the same WHEN they end THEN each packs its
    # own log
    program.write(RANK, "rank.py")
    text = LAUNCHER.replace('OMPI_COMM_WORLD_RANK=str(rank), OMPI_COMM_WORLD_SIZE="4"', f'{variables}, PYIO_TRACE="1"')
    launcher = program.write(text, "launcher.py")
    env: dict[str, str | None] = {"PYIO_TRACE_OUTPUT": str(program.folder / "log-%p.parquet"), "PYIO_TRACE_QUIET": "1"}
    _, packers = _started(program, [sys.executable, launcher], env)
    assert len(set(packers)) == 4
    found = [_opened(log) for log in program.folder.glob("log-*.parquet")]
    assert sorted(map(sorted, found)) == [[f"data-{rank}"] for rank in range(4)]


def test_children_of_one_run(program: Runner) -> None:
    # GIVEN a program whose four children end with it WHEN it ends THEN one process packs the log of all
    script = program.write("""
    import multiprocessing
    def work(number):
        open(f"data-{number}", "w").close()
    if __name__ == "__main__":
        children = [multiprocessing.get_context("fork").Process(target=work, args=(n,)) for n in range(4)]
        [child.start() for child in children]
        [child.join() for child in children]
    """)
    log = program.folder / "run.parquet"
    env: dict[str, str | None] = {"PYIO_TRACE": "1", "PYIO_TRACE_OUTPUT": str(log), "PYIO_TRACE_QUIET": "1"}
    _, packers = _started(program, [sys.executable, script], env)
    assert len(packers) == 1
    assert _opened(log) == {f"data-{number}" for number in range(4)}


def _request(rank: int) -> one_for_all.Request:
    return one_for_all.Request(f"/{rank}.pyio", "1:2:3", f"/{rank}.parquet", "600", str(rank))


ASKS = """\
import json, os, sys
sys.path.insert(0, sys.argv[1])
from pyio_trace.join.pack import one_for_all as one
print(one._is_taken(sys.argv[2], one.Request(*json.loads(sys.argv[3]))))
"""


@pytest.mark.parametrize(("within", "taken"), [([], True), (["unshare", "-m"], False), (["unshare", "-pf"], False)])
def test_only_who_sees_the_same_files_is_heeded(within: list[str], taken: bool) -> None:
    # GIVEN a packer, which would write a file of any name for a rank of its job
    job = f"pyio-trace-test-{os.getpid()}"
    packer = one_for_all.packer_or_hand_over(job, _request(0))
    assert packer is not None
    # WHEN a process asks in whose container the network is the same, and the files or process ids may be others
    source = str(Path(one_for_all.__file__).parents[3])
    words = [*within, sys.executable, "-c", ASKS, source, job, json.dumps(_request(1))]
    done = subprocess.run(words, capture_output=True, text=True)
    requests = [packer.next()]
    while requests[-1] is not None:
        requests.append(packer.next())
    if done.returncode != 0 and "unshare" in done.stderr:
        pytest.skip(f"no namespaces here: {done.stderr.strip()}")
    # THEN it is not heeded, and packs its own log
    assert (done.returncode, done.stdout) == (0, f"{taken}\n"), done.stderr
    assert requests == ([_request(1), None] if taken else [None])


def test_a_rank_that_has_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN the packer of a job, and a rank that asked, waited in vain and left before it was answered
    job = f"pyio-trace-test-{os.getpid()}"
    asked, gone = threading.Event(), threading.Event()
    received = one_for_all._received

    def slowly(peer: socket.socket) -> one_for_all.Request | None:
        request = received(peer)
        asked.set()
        assert gone.wait(30)
        return request

    monkeypatch.setattr(one_for_all, "_received", slowly)
    packer = one_for_all.packer_or_hand_over(job, _request(0))
    assert packer is not None
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
        peer.connect("\0" + job)
        peer.sendall(json.dumps(_request(1)).encode())
        peer.shutdown(socket.SHUT_WR)
        assert asked.wait(30)
    gone.set()
    # WHEN another rank asks THEN only that one's log is packed: the first packs its own
    assert one_for_all.packer_or_hand_over(job, _request(2)) is None
    assert packer.next() == _request(2) and packer.next() is None


def test_no_further_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN a rank that may start no thread WHEN it is to be the packer THEN it packs its own log, and nobody waits
    def refused(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    job = f"pyio-trace-test-{os.getpid()}"
    monkeypatch.setattr(threading.Thread, "start", refused)
    with pytest.raises(OSError, match="no packer"):
        one_for_all.packer_or_hand_over(job, _request(0))
    monkeypatch.undo()
    packer = one_for_all.packer_or_hand_over(job, _request(1))
    assert packer is not None and packer.next() is None


def test_the_launcher_hears_the_end_last(program: Runner) -> None:
    # GIVEN a rank that has a socket to its launcher, as those of MPICH and Slurm have
    log = program.folder / "run.parquet"
    script = program.write("import os; os.write(int(os.environ['PMI_FD']), b'.')")
    here, there = socket.socketpair()
    words = [sys.executable, "-m", "pyio_trace", "-q", "-o", log, script]
    env = clean_environment(PMI_FD=str(there.fileno()))
    with here, subprocess.Popen(words, env=env, pass_fds=[there.fileno()]) as rank:
        there.close()
        assert here.recv(1) == b"."
        # WHEN the launcher reads the end of it
        assert here.recv(1) == b""
        # THEN the log is packed: until the process has ended, mpiexec would read this end in a loop
        assert log.exists()
    assert rank.returncode == 0


def test_pandas_is_not_imported_at_the_end(program: Runner) -> None:
    # GIVEN a pandas that tells when it is imported
    marker = program.folder / "imported"
    (program.folder / "lib" / "pandas").mkdir(parents=True)
    program.write(f"open({str(marker)!r}, 'w').close()\n__version__ = '2.0'\n", "lib/pandas/__init__.py")
    # WHEN four ranks end, and one process sums them up
    program.write(RANK, "rank.py")
    launcher = program.write(LAUNCHER.replace('SIZE="4"', 'SIZE="4", PYIO_TRACE="1"'), "launcher.py")
    env = {"PYIO_TRACE_OUTPUT": str(program.folder / "log-%r.parquet"), "PYTHONPATH": str(program.folder / "lib")}
    outcome = succeeded(program.command([sys.executable, launcher], env=env))
    # THEN it has not been
    assert "next: " in outcome.stderr and not marker.exists()
