"""Pictures of all kinds of runs: sound, readable, silent where a run has nothing for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from pyio_trace.analysis.scan.workers import local_processes
from pyio_trace.errors import PyioTraceError
from pyio_trace.join.sources.facade import Log
from pyio_trace.join.sources.opening import open_log
from pyio_trace.pictures import pictures_of
from pyio_trace.pictures.found import found, results_of
from pyio_trace.units import size
from tests.analysis.test_agreement import forged as forged_log
from tests.support import darshan_logs
from tests.support.drawings import check
from tests.support.logwriter import LogWriter
from tests.support.programs import Runner, succeeded
from tests.support.smallrun import small_run

FILES = """\
import os
for n in range(60):
    with open(f"sample-{n}", "wb") as file: file.write(bytes(100 * n + 1))
for n in range(60):
    with open(f"sample-{n}", "rb") as file: file.read()
fd = os.open("one", os.O_RDWR | os.O_CREAT)
for n in range(200):
    os.pwrite(fd, bytes(4096), 4096 * (n * 37 % 200))
    os.pread(fd, 4096, 4096 * n)
os.fsync(fd)
"""
POOL = """\
from concurrent.futures import ProcessPoolExecutor
def load(name): return len(open(name, "rb").read())
if __name__ == "__main__":
    for n in range(3): open(f"part-{n}", "wb").write(bytes(10_000 * (n + 1)))
    with ProcessPoolExecutor(2) as pool:
        list(pool.map(load, [f"part-{n % 3}" for n in range(9)]))
"""
KILLED = """\
import os, signal
fd = os.open("data", os.O_RDWR | os.O_CREAT)
for n in range(10): os.pwrite(fd, bytes(1000), 1000 * n)
os.kill(os.getpid(), signal.SIGKILL)
"""
#: Names that would end an element, run a script, hide, or turn the direction of what follows.
HOSTILE = [
    "</title></svg><script>alert(1)</script>", 'a" onload="alert(1)', "\u202egnp.exe", "new\nline\x1b[2J",
    "\u200b\u200d" * 90, "a" * 2000, "&lt;&amp;", "$x_{1}$ %s {0}", "漢字" * 40, "x::error::y", "]]>",
]  # fmt: skip


def traced(text: str) -> Callable[[Path], Log]:
    return lambda folder: succeeded(Runner(folder).traced(text)).log


def killed(folder: Path) -> Log:
    return Runner(folder).traced(KILLED).log


def profile(folder: Path) -> Log:
    return succeeded(Runner(folder).traced(FILES, "--mode", "profile")).log


def empty(folder: Path) -> Log:
    return open_log(LogWriter().save(folder / "empty.pyio"))


def hostile(folder: Path) -> Log:
    """Two processes and tasks with such names use files with such names, at lines with such names."""
    writer = LogWriter()
    names = [f"/d/{name}" for name in HOSTILE]
    first = writer.process(1, argv=["python", HOSTILE[0]], begin=0, end=10**9, stack_state=1)
    second = writer.process(2, argv=["python", HOSTILE[2]], parent=first, begin=0, end=10**9, stack_state=1)
    threads = [writer.thread(first, 1), writer.thread(second, 2)]
    for number, name in enumerate(names):
        stack = writer.stack((writer.code(name, HOSTILE[number - 1]), 5))
        desc = writer.desc(3, name, kind=1, dev=1, ino=number + 1)
        for thread in threads:
            for at in range(5):
                begin, size = 1000 * (10 * number + at), 100
                thread.record(
                    "PREAD", begin=begin, duration=500, desc=desc, aux=3, offset=size * at, size=size, result=size,
                    stack=stack,
                )  # fmt: skip
    return open_log(writer.save(folder / "hostile.pyio"))


def darshan(folder: Path) -> Log:
    return open_log(darshan_logs.example().write(folder / "run.darshan"))


def darshan_traced(folder: Path) -> Log:
    return open_log(darshan_logs.traced().write(folder / "traced.darshan"))


def many_processes(folder: Path) -> Log:
    """300 ranks that share a file."""
    writer = LogWriter()
    desc = writer.desc(3, "/d/shared", kind=1, dev=1, ino=1)
    for rank in range(300):
        process = writer.process(1000 + rank, argv=["python", "job.py"], begin=0, end=10**9)
        writer.thread(process, 1000 + rank).record(
            "PWRITE", begin=1000 * rank, duration=900, desc=desc, aux=3, offset=4096 * rank, size=4096, result=4096
        )
    return open_log(writer.save(folder / "many.pyio"))


def forged(folder: Path) -> Log:
    return open_log(forged_log(folder / "forged.pyio"))


RUNS: dict[str, Callable[[Path], Log]] = {
    "files": traced(FILES), "pool": traced(POOL), "killed": killed, "profile": profile, "hostile": hostile,
    "forged": forged,
    "small": lambda folder: open_log(small_run(folder / "run.pyio")), "darshan": darshan,
    "darshan, traced": darshan_traced, "many processes": many_processes,
}  # fmt: skip
TIMED = {"timeline", "heat-map", "offsets-1", "batches-1", "shared-1"}


@pytest.fixture(scope="module", params=RUNS)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Log]:
    return request.param, RUNS[request.param](tmp_path_factory.mktemp("run"))


def test_pictures_are_sound(run: tuple[str, Log]) -> None:
    # GIVEN a run WHEN its pictures are made THEN each is sound, and none has the name of another
    name, log = run
    pictures = pictures_of(log)
    for one in pictures:
        check(one)
    slugs = [one.slug for one in pictures]
    assert len(slugs) == len(set(slugs)) and "sizes" in slugs, name
    # AND what a log without times cannot tell is in none
    if log.info()["mode"] == "profile":
        assert not TIMED & set(slugs)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Glyph")
def test_figures_are_drawn(run: tuple[str, Log], tmp_path: Path) -> None:
    # GIVEN a run WHEN what it has is drawn by matplotlib THEN there are files
    pytest.importorskip("matplotlib")
    from pyio_trace.pictures.plotting import new_figure

    results = results_of(run[1], found())
    for kind in found():
        for number, data in enumerate(kind.data(results)):
            figure = new_figure()
            kind.figure(data, figure)
            figure.savefig(tmp_path / f"{kind.name}-{number}.png", dpi=30)
            assert (tmp_path / f"{kind.name}-{number}.png").stat().st_size > 500


def test_an_empty_log_has_no_pictures(tmp_path: Path) -> None:
    assert pictures_of(empty(tmp_path)) == []


def test_one_pass_makes_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN a log of which each reading is noted WHEN its pictures are made THEN it was read once, and that was told
    log = open_log(small_run(tmp_path / "run.pyio"))
    readings, rows, batches = [], list[int](), log.batches
    monkeypatch.setattr(log, "batches", lambda *wanted: readings.append(wanted) or batches(*wanted))
    assert pictures_of(log, rows.append)
    assert len(readings) == 1 and sum(rows) == log.rows()


@pytest.mark.slow
def test_other_processes_read_the_same(tmp_path: Path) -> None:
    # GIVEN a log WHEN two processes read it for its pictures THEN they are the same
    log = open_log(small_run(tmp_path / "run.pyio"))
    with local_processes(2) as workers:
        assert pictures_of(log, workers=workers) == pictures_of(log)


def test_a_killed_run_has_what_it_did_until_then(tmp_path: Path) -> None:
    (offsets,) = (one for one in pictures_of(killed(tmp_path)) if one.slug == "offsets-1")
    assert [row[2] for row in offsets.rows] == [size(1000 * n) for n in range(10)]


def test_matplotlib_is_imported_late(tmp_path: Path) -> None:
    # GIVEN a program that makes pictures WHEN it ends THEN matplotlib and IPython were not imported for that
    log = small_run(tmp_path / "run.pyio")
    text = (
        "import sys, pyio_trace\n"
        "from pyio_trace.pictures import pictures_of\n"
        f"assert pictures_of(pyio_trace.open({str(log)!r}))\n"
        "print([name for name in ('matplotlib', 'IPython') if name in sys.modules])\n"
    )
    outcome = Runner(tmp_path).bare(text)
    assert outcome.stdout == "[]\n", outcome.stderr


def test_every_kind_has_its_own_name_and_order() -> None:
    kinds = found()
    assert len({kind.name for kind in kinds}) == len({kind.order for kind in kinds}) == len(kinds) >= 12


@pytest.mark.slow
def test_damaged_logs_have_sound_pictures_or_one_error(tmp_path: Path) -> None:
    # GIVEN logs in which bytes were changed WHEN their pictures are made THEN they are sound, or one line says why not
    random = Random(11)
    hostile(tmp_path)
    whole = (tmp_path / "hostile.pyio").read_bytes()
    used = [at for at in range(0, len(whole), 64) if any(whole[at : at + 64])]
    for _ in range(40):
        damaged = bytearray(whole)
        for _ in range(random.choice((1, 5, 50, 200))):
            damaged[random.choice(used) + random.randrange(64)] = random.choice((0, 1, 127, 128, 255))
        (tmp_path / "damaged.pyio").write_bytes(damaged)
        try:
            for one in pictures_of(open_log(tmp_path / "damaged.pyio")):
                check(one)
        except PyioTraceError as problem:
            assert "\n" not in str(problem)
