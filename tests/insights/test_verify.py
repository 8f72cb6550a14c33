"""`insights --verify`: remedies tried on the files of real traced runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pyio_trace.cli.main import main
from pyio_trace.insights import insights, registry, verify
from pyio_trace.insights.finding import Finding, Verified
from pyio_trace.insights.settings import Settings
from pyio_trace.insights.trials import datasets_written, reads
from pyio_trace.insights.trials.attempt import cores
from pyio_trace.insights.trials.rounds import ROUNDS
from pyio_trace.insights.trials.scratch import PREFIX
from pyio_trace.report.findings_text import verified_text
from pyio_trace.report.schemas import schema_of
from tests.support.findings import only
from tests.support.programs import Outcome, Runner, clean_environment, succeeded

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("own_time")]
#: Times that are short or small are findings too.
ANY = Settings(limits={"small-accesses": {"share": 0}, "severity": {"critical_ms": 0, "critical_share": 0.0001}})
DATA = """
import os
with open("data.bin", "wb") as f: f.write(bytes(4 << 20))
"""
SMALL = DATA + "f = open('data.bin', 'rb', buffering=0)\nfor n in range(8000): f.read(512)"


def verified(outcome: Outcome, slug: str, settings: Settings = ANY) -> tuple[Finding, Verified]:
    """A finding of a run and what trying its remedy showed.  No scratch folder is left."""
    rules = registry.found()
    log = succeeded(outcome).log
    summary, found = insights.find(log, rules, settings)
    # only() fails if there are several
    wanted = insights.Insights([only(found.findings, slug)])
    (finding,) = verify.verify(log, summary, wanted, rules, settings, seconds=3).findings
    assert not list(Path(outcome.path).parent.rglob(f"{PREFIX}*"))
    assert finding.verified is not None
    return finding, finding.verified


def check_gain(finding: Finding, shown: Verified, operations: int) -> None:
    """The remedy helps, and what was tried is what the program did."""
    assert shown.outcome == "gain", shown
    assert shown.rounds >= ROUNDS and 0 < shown.operations <= shown.of_operations == operations
    assert shown.low_ns <= shown.saved_ns <= shown.high_ns <= shown.recorded_ns and shown.remedy_ns < shown.plain_ns
    assert shown.remedy_range_ns[1] < shown.plain_range_ns[0]
    check_measured(finding, shown)
    if not shown.at_least:
        assert finding.confidence.level == "high"
        assert finding.recoverable_ns == min(shown.saved_ns, finding.recoverable.of_wall_ns)


def check_measured(finding: Finding, shown: Verified) -> None:
    """What was measured counts, unless a busy machine was twice as slow in the run: then it is a part of it at most."""
    assert (finding.recoverable.bound == "measured") is not shown.at_least
    assert not shown.at_least or 2 * shown.plain_range_ns[1] < finding.recoverable_ns


def test_small_reads(program: Runner) -> None:
    # GIVEN 8000 reads of 512 bytes WHEN the remedy is tried THEN a buffer is faster
    finding, shown = verified(program.traced(SMALL), "small-accesses")
    check_gain(finding, shown, 8000)
    assert shown.cache == "cached"


def test_small_writes(program: Runner) -> None:
    text = "f = open('out.bin', 'wb', buffering=0)\nfor n in range(6000): f.write(b'0123456789')"
    finding, shown = verified(program.traced(text), "small-accesses")
    check_gain(finding, shown, 6000)
    # THEN the original was not written to
    assert shown.cache == "new files" and (program.folder / "out.bin").stat().st_size == 60_000


def test_a_remedy_that_does_not_help(program: Runner) -> None:
    # GIVEN 8 bytes of every 500 KB, read one by one WHEN all of the file is read instead THEN it is said that nothing
    # is gained: this is a thousand times as much
    text = """
    import os
    f = open("wide.bin", "w+b")
    f.truncate(300_000_000)
    for n in range(600): os.pread(f.fileno(), 8, n * 500_000)
    """
    finding, shown = verified(program.traced(text), "strided-reads")
    assert shown.outcome == "harm" and shown.rounds >= ROUNDS and shown.saved_ns < 0
    # THEN nobody is told to do it
    assert (finding.severity, finding.recoverable_ns, finding.remedy) == ("info", 0, None)
    assert "takes longer with the remedy, which is dropped" in verified_text(shown)
    assert shown.plain_range_ns[1] < shown.remedy_range_ns[0]


def test_the_same_bytes_again(program: Runner) -> None:
    text = DATA + "for n in range(60):\n    with open('data.bin', 'rb', buffering=0) as f: f.read(4 << 20)"
    check_gain(*verified(program.traced(text), "read-again"), 60)


def test_an_array_that_is_loaded_again(program: Runner) -> None:
    text = """
    import numpy as np
    np.save("a.npy", np.arange(200_000))
    for n in range(40): np.load("a.npy")[n]
    """
    check_gain(*verified(program.traced(text), "whole-file-again"), 40)


def test_tables_that_tasks_read_again(program: Runner) -> None:
    pytest.importorskip("dask")
    # GIVEN tasks that read the same table, two at a time WHEN the remedy is tried THEN two threads try it
    text = """
    import dask, threading, numpy as np, pyarrow as pa
    from pyarrow import parquet
    parquet.write_table(pa.table({"x": np.arange(100_000)}), "t.parquet")
    both = threading.Barrier(2)
    def load(n):
        both.wait()
        return parquet.read_table("t.parquet").num_rows
    dask.compute(*[dask.delayed(load)(n) for n in range(12)], scheduler="threads", num_workers=2)
    """
    finding, shown = verified(program.traced(text), "tasks-read-again")
    assert shown.of_operations == 12 and shown.remedy_ns < shown.plain_ns and "in 2 threads" in shown.why
    # WHAT is made of a table is not tried
    assert shown.at_least and "comes on top" in shown.why and finding.recoverable_ns >= shown.saved_ns
    if shown.outcome == "gain":
        assert "saves at least" in verified_text(shown)


def test_a_file_opened_for_each_item(program: Runner) -> None:
    # each reads another part: the same one would be read again
    text = DATA + "for n in range(600):\n    with open('data.bin', 'rb', buffering=0) as f: f.seek(10 * n); f.read(10)"
    check_gain(*verified(program.traced(text), "reopen-per-item"), 600)


def test_a_file_opened_for_each_line_that_is_appended(program: Runner) -> None:
    text = "for n in range(600):\n    with open('log.txt', 'a') as f: f.write('line\\n')"
    check_gain(*verified(program.traced(text), "reopen-per-item"), 600)
    assert (program.folder / "log.txt").read_text() == "line\n" * 600


def test_small_files(program: Runner) -> None:
    text = """
    import os
    os.mkdir("items")
    for n in range(1200):
        with open(f"items/{n}.bin", "wb") as f: f.write(b"x" * 500)
    for n in range(1200):
        with open(f"items/{n}.bin", "rb") as f: f.read()
    """
    outcome = program.traced(text)
    rules = registry.found()
    summary, found = insights.find(succeeded(outcome).log, rules, ANY)
    both = [one for one in found.findings if one.slug == "small-files"]
    tried = verify.verify(outcome.log, summary, insights.Insights(both), rules, ANY, seconds=2).findings
    assert {one.verified.outcome for one in tried if one.verified} == {"gain"}
    assert len(list((program.folder / "items").iterdir())) == 1200
    assert not list(program.folder.rglob(f"{PREFIX}*"))


def test_stat_storm(program: Runner) -> None:
    text = DATA + "for n in range(3000): os.stat('data.bin')"
    check_gain(*verified(program.traced(text), "stat-storm"), 3000)


def test_flush_after_each_record(program: Runner) -> None:
    text = "f = open('log.txt', 'w')\nfor n in range(4000):\n    f.write('record\\n')\n    f.flush()"
    check_gain(*verified(program.traced(text), "flush-per-record"), 4000)


def test_a_commit_for_each_row(program: Runner) -> None:
    text = """
    import sqlite3
    db = sqlite3.connect("rows.db")
    db.execute("CREATE TABLE t (n)")
    for n in range(80):
        db.execute("INSERT INTO t VALUES (?)", (n,))
        db.commit()
    """
    finding, shown = verified(program.traced(text), "commit-per-row")
    assert shown.outcome == "gain" and shown.of_operations >= 80
    check_measured(finding, shown)


def test_a_sync_after_each_write(program: Runner) -> None:
    text = """
    import os
    with open("log.txt", "wb", buffering=0) as f:
        for n in range(60):
            f.write(b"record")
            os.fsync(f.fileno())
    """
    _, shown = verified(program.traced(text), "sync-per-write")
    # WHETHER it helps depends on the disk: a file system in memory syncs at once
    assert shown.rounds >= ROUNDS and shown.of_operations == 122  # an open, 60 writes, 60 syncs, a close


SYNCS_OF_MAPS = {
    "all of it": "m[n * 4096] = 1; m.flush()",
    "a part": "m[n * 4096] = 1; m.flush(n * 4096, 4096)",
    "one page": "m[0] = n; m.flush()",
}


@pytest.mark.parametrize("how", SYNCS_OF_MAPS)
def test_a_sync_of_a_map_after_each_change(program: Runner, how: str) -> None:
    # GIVEN a map that is synced 60 times WHEN one sync is tried instead
    text = f"""
    import mmap
    with open("m.bin", "w+b") as f:
        f.truncate(1 << 20)
        with mmap.mmap(f.fileno(), 0) as m:
            for n in range(60): {SYNCS_OF_MAPS[how]}
    """
    finding, shown = verified(program.traced(text), "sync-per-write")
    # THEN pages are changed in a map, one for each sync, which shows a part of the gain: the finding is not made less
    assert shown.at_least and shown.of_operations == 60 and "a page was changed" in shown.why
    assert shown.outcome in ("gain", "not known")
    assert finding.recoverable.bound != "measured" or finding.recoverable_ns == shown.saved_ns


@pytest.mark.parametrize("compression", ["'gzip'", "None"])
def test_chunks_that_are_read_again(program: Runner, compression: str) -> None:
    pytest.importorskip("h5py")
    text = f"""
    import h5py, numpy as np
    with h5py.File("c.h5", "w") as f:
        f.create_dataset("t", data=np.arange(1 << 21).reshape(2048, 1024), chunks=(32, 1024), compression={compression})
    with h5py.File("c.h5") as f:
        d = f["t"]
        for column in range(40): d[:, column]
    """
    slug = "hdf5-chunk-cache" if compression == "None" else "hdf5-chunks-again"
    finding, shown = verified(program.traced(text), slug)
    check_gain(finding, shown, 40)
    assert shown.cache == "cached"


def test_tiles_of_a_contiguous_dataset(program: Runner) -> None:
    pytest.importorskip("h5py")
    text = """
    import h5py, numpy as np
    tile = np.ones((256, 256))
    with h5py.File("c.h5", "w") as f:
        d = f.create_dataset("t", (2048, 2048), "f8")
        for row in range(0, 2048, 256):
            for column in range(0, 2048, 256): d[row:row + 256, column:column + 256] = tile
    """
    outcome = program.traced(text)
    before = (program.folder / "c.h5").read_bytes()
    check_gain(*verified(outcome, "hdf5-contiguous"), 64)
    assert (program.folder / "c.h5").read_bytes() == before


def test_hdf5_file_opened_for_each_item(program: Runner) -> None:
    pytest.importorskip("h5py")
    text = """
    import h5py, numpy as np
    with h5py.File("c.h5", "w") as f: f["t"] = np.arange(1000)
    for n in range(60):
        with h5py.File("c.h5") as f: f["t"][n]
    """
    finding, shown = verified(program.traced(text), "hdf5-reopen-per-item")
    assert shown.outcome == "gain"
    check_measured(finding, shown)


def bytes_written() -> int:
    return _account("wchar")


def read_calls() -> int:
    """ns, if each call to read takes a microsecond"""
    return 1000 * _account("syscr")


def _account(name: str) -> int:
    """What this process has done, by the kernel's account."""
    with open("/proc/self/io") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(name))


def test_hdf5_flush_after_each_item(program: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("h5py")
    text = """
    import h5py, numpy as np
    with h5py.File("c.h5", "w") as f:
        d = f.create_dataset("t", (0, 128), "f8", maxshape=(None, 128), chunks=(1024, 128))
        for n in range(300):
            d.resize(n + 1, axis=0)
            d[n] = np.ones(128)
            f.flush()
    """
    # WHEN the bytes that are written count as time: each flush writes a chunk of 1 MiB, which takes a processor hardly
    # longer than the row, and a disk far longer
    monkeypatch.setattr(datasets_written, "perf_counter_ns", bytes_written)
    check_gain(*verified(program.traced(text), "hdf5-flush-per-item"), 900)


def test_processes_side_by_side(program: Runner) -> None:
    # GIVEN two processes that ask at the same time WHEN the remedy is tried THEN two processes try it
    text = """
    import os
    from multiprocessing import get_context
    def ask(barrier):
        for n in range(20000):
            if n % 200 == 0: barrier.wait()
            os.stat("program.py")
    context = get_context("fork")
    barrier = context.Barrier(2)
    both = [context.Process(target=ask, args=(barrier,)) for _ in range(2)]
    for one in both: one.start()
    for one in both: one.join()
    """
    finding, shown = verified(program.traced(text), "stat-storm")
    check_gain(finding, shown, 20000)
    if cores() > 1:
        assert shown.why.startswith("in 2 processes side by side")


def test_what_needs_the_program(program: Runner) -> None:
    text = "import os\nfor n in range(2000): os.path.exists(f'missing{n % 7}')"
    finding, shown = verified(program.traced(text), "missing-paths")
    assert (shown.outcome, shown.why, shown.rounds) == ("not tried", "needs the program", 0)
    assert finding.recoverable.bound != "measured"


def test_formats(program: Runner, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    # GIVEN a clock that counts calls to read instead of time WHEN the findings of a run are verified and printed
    monkeypatch.setattr(reads, "perf_counter_ns", read_calls)
    path = str(succeeded(program.traced(SMALL)).path)
    printed = {}
    for name in ("json", "text", "markdown", "sarif", "github"):
        assert main(["insights", path, "--verify", "--verify-seconds", "1", "--format", name]) == 0
        captured = capsys.readouterr()
        printed[name] = captured.out
        assert captured.err == ""  # which is no terminal here
    # THEN JSON has an object that fits the schema, and the others a sentence
    objects: list[dict[str, Any]] = json.loads(printed["json"])
    jsonschema.validate(objects, schema_of("insights"))
    small = next(one for one in objects if one["slug"] == "small-accesses")
    assert small["verified"]["outcome"] == "gain" and small["verified"]["operations"] == 8000
    for name in ("text", "markdown", "sarif", "github"):
        assert "saves" in printed[name] and "rounds" in printed[name]
    lines = printed["text"].splitlines()
    (tried,) = (line for line in lines if line.startswith("   tried "))
    assert tried.startswith("   tried here: saves ") and len(tried) <= 80


def test_a_part_of_a_run(program: Runner, capsys: pytest.CaptureFixture[str]) -> None:
    # GIVEN reads of two files at one line WHEN only one is selected THEN only its reads are issued again
    text = DATA + (
        "os.link('data.bin', 'other.txt')\nfor name in ('data.bin', 'other.txt'):\n"
        "    with open(name, 'rb', buffering=0) as f:\n        while f.read(1024): pass"
    )
    path = str(succeeded(program.traced(text)).path)
    options = ["--path", "*.txt", "--rule", "small-accesses", "--verify", "--verify-seconds", "1", "--format", "json"]
    assert main(["insights", path, *options]) == 0
    (small,) = json.loads(capsys.readouterr().out)
    assert small["verified"]["of_operations"] in (4096, 4097)  # with the read at the end, if it counts


def test_nothing_of_it_is_imported_without_the_option(program: Runner) -> None:
    path = succeeded(program.traced(SMALL)).path
    text = (
        "import sys\nfrom pyio_trace.cli.main import main\nmain(['insights', sys.argv[1], *sys.argv[2:]])\n"
        "print(any('insights.trials' in name or name.endswith('insights.verify') for name in sys.modules))"
    )
    for options, last in (([], "False"), (["--verify", "--verify-seconds", "0.2"], "True")):
        words = [sys.executable, "-c", text, str(path), *options]
        ran = subprocess.run(words, env=clean_environment(), capture_output=True, text=True, timeout=120)
        assert ran.returncode == 0 and ran.stdout.splitlines()[-1] == last, ran.stderr


@pytest.mark.parametrize("text", ["0", "-1", "nan", "x", "1e9"])
def test_a_time_that_makes_no_sense(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["insights", "none.pyio", "--verify", f"--verify-seconds={text}"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_every_trial_is_there() -> None:
    # GIVEN all rules of ours WHEN their trials are looked up THEN each is a function with a docstring
    trials = [rule.trial for rule in registry.found(third_party=False).values() if rule.trial is not None]
    assert len(trials) >= 15
    for trial in trials:
        assert trial.rows in ("line", "files", "loader") and verify.loaded(trial.replay).__doc__
