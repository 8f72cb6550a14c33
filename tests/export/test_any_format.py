"""What holds for all formats: sizes, empty and killed runs, sums, folders, other tools' logs, bad options."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyio_trace.cli.commands import export_command
from pyio_trace.cli.main import main
from pyio_trace.export import Options, format_of, formats
from tests.export.pictures import FORMATS, LEFT_OUT, PROGRAM, SINGLE, SUMS, export, many_operations, outer_sums, shown
from tests.export.test_timelines import of_chrome, of_firefox, of_perfetto
from tests.export.wire import Profile
from tests.support.darshan_logs import DarshanLog
from tests.support.logwriter import HOST, LogWriter
from tests.support.programs import Runner, succeeded
from tests.support.smallrun import small_run

#: From a file to what is drawn of it: (operation, begin, end, bytes, calls, errno) -> how many.
READ = {
    "perfetto": lambda path: of_perfetto(path)[1], "chrome": lambda path: of_chrome(path)[2],
    "firefox": lambda path: of_firefox(path)[1],
}  # fmt: skip


def test_every_format_says_what_it_is() -> None:
    assert set(formats()) == {*FORMATS, "darshan"}
    help_text = export_command.__doc__ or ""
    assert all(f"\n  {name} " in help_text for name in formats())
    for name in FORMATS:
        module = format_of(name)
        assert module.__doc__ and module.LIMITED  # type: ignore[attr-defined]
    assert Options().max_size == 100 << 20


@pytest.mark.parametrize("to", SINGLE)
@pytest.mark.parametrize("size", [6_000, 20_000, 100_000])
def test_a_largest_size_holds(to: str, size: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # GIVEN 3,000 reads by three lines, the later the longer WHEN they are exported to a small file
    log = many_operations(tmp_path / "run.pyio")
    output = export(log, tmp_path / "x", to, "--max-size", str(size))
    said = capsys.readouterr().out
    # THEN it is not larger
    assert output.stat().st_size <= size
    found = READ[to](output)
    single = {key: count for key, count in found.items() if key[0] != LEFT_OUT}
    rest = [key for key in found if key[0] == LEFT_OUT]
    # AND what is kept is the longest, and the others are sums by line that lack nothing
    kept = sorted(end - begin for _, begin, end, *_ in single)
    left = sorted({*range(100, 3100)} - {*kept})
    assert len(rest) == 3 and len({*kept}) == len(kept) and left[-1] * 32 <= kept[0] * 33  # to 3 %
    assert sum(key[4] for key in rest) == 3000 - len(kept) and sum(key[3] for key in rest) == 10 * (3000 - len(kept))
    assert f"{3000 - len(kept):,} shortest operations summed by line: {3000 - len(kept):,} calls" in said


@pytest.mark.parametrize("to", SINGLE)
def test_very_long_names(to: str, tmp_path: Path) -> None:
    # GIVEN a forged log whose calls have names of 1 MiB WHEN it is exported THEN their ends are shown
    writer = LogWriter()
    thread = writer.thread(writer.process(5, begin=1_000, end=10_000_000), 5)
    for name in "ab":
        desc = writer.desc(3, "/d/" + name * (1 << 20), kind=1, dev=1, ino=1)
        for k in range(400):
            thread.record("PREAD", begin=10_000 + k * 100, duration=5, desc=desc, aux=3, offset=k, size=1, result=1)
    output = export(writer.save(tmp_path / "run.pyio"), tmp_path / "x", to)
    assert sum(READ[to](output).values()) == 800
    data = output.read_bytes()
    assert b"b" * 4096 in data and b"b" * 4097 not in data and len(data) < 5_000_000


@pytest.mark.parametrize("to", FORMATS)
def test_a_size_that_is_too_small(to: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = many_operations(tmp_path / "run.pyio", 20)
    assert main(["export", str(log), "--to", to, "-o", str(tmp_path / "x"), "--max-size", "8"]) == 2
    said = capsys.readouterr()
    assert said.err.endswith("[bad-size]\n") and said.err.count("\n") == 1 and not said.out
    assert sorted(one.name for one in tmp_path.iterdir()) == ["run.pyio"]


@pytest.mark.parametrize("to", FORMATS)
def test_an_empty_log(to: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    writer = LogWriter()
    writer.process(1)
    output = export(writer.save(tmp_path / "run.pyio"), tmp_path / "x", to)
    assert not READ[to](output) if to in READ else output.exists()
    assert "open it" in capsys.readouterr().out.splitlines()[-1]


def test_a_killed_run(program: Runner, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # GIVEN a program that is killed when it waits for the other end of a FIFO
    outcome = program.traced("""\
        import os, signal
        os.mkfifo("fifo")
        parent = os.getpid()
        if not os.fork():
            while open(f"/proc/{parent}/stat").read().rpartition(")")[2].split()[0] != "S":
                pass
            os.kill(parent, signal.SIGKILL)
            os._exit(0)
        os.open("fifo", os.O_RDONLY)
    """)
    assert outcome.status == -9
    for to in SINGLE:
        # WHEN its log is exported THEN the call that never returned is there
        found = READ[to](export(outcome.path, tmp_path / to, to))
        assert sum(found.values()) == sum(shown(outcome.path).values())
        assert "1 call did not return: drawn until the process ended" in capsys.readouterr().out
    slices = of_perfetto(tmp_path / "perfetto")[0].slices
    (flying,) = [one for one in slices if "in_flight" in one.args]
    assert flying.args["path"].endswith("/fifo") and flying.end >= flying.begin


@pytest.mark.parametrize("to", FORMATS)
def test_sums_of_a_profile(to: str, program: Runner, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = succeeded(program.traced(PROGRAM, env={"PYIO_TRACE_MODE": "profile"}))
    output = export(outcome.path, tmp_path / "x", to)
    said = capsys.readouterr().out
    if to in SUMS:
        if to == "pprof":
            assert {kind: Profile(output).total(kind) for kind in ("calls", "bytes")} == {
                kind: outer_sums(outcome.path)[kind] for kind in ("calls", "bytes")
            }  # fmt: skip
        return
    found = READ[to](output)
    assert max(calls for *_, calls, _ in found) > 1000 and "stand for" in said


@pytest.mark.parametrize("to", FORMATS)
def test_a_folder_of_ranks(to: str, tmp_path: Path) -> None:
    # GIVEN the logs of two hosts whose processes and threads have the same numbers
    folder = tmp_path / "logs"
    folder.mkdir()
    for place in range(2):
        writer = LogWriter(host=f"{HOST}{place}", boot_id=f"{place}" * 8)
        thread = writer.thread(writer.process(7, argv=["python", "rank.py"], begin=1_000, end=90_000), 7)
        desc = writer.desc(3, f"/d/{place}", kind=1, dev=1, ino=place + 1)
        thread.record("PREAD", begin=5_000, duration=1_000, desc=desc, aux=3, offset=0, size=4, result=4)
        writer.save(folder / f"run-{place}.pyio")
    output = export(folder, tmp_path / "x", to)
    if to in READ:
        assert sum(READ[to](output).values()) == 2
    if to == "perfetto":
        # THEN each has its own track, under the name of its host
        slices = of_perfetto(output)[0].slices
        assert {one.process for one in slices} == {f"rank.py (7) on {HOST}{place}" for place in range(2)}
        assert len({one.track for one in slices}) == 2


@pytest.mark.parametrize("to", FORMATS)
def test_a_log_of_another_tool(to: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = DarshanLog(processes=2)
    counters = {"OPENS": 1, "READS": 3, "BYTES_READ": 300}
    log.record("POSIX", "/scratch/in", 0, counters | {"READ_TIME": 0.5, "READ_START_TIMESTAMP": 1.0})
    output = export(log.write(tmp_path / "app.darshan"), tmp_path / "x", to)
    said = capsys.readouterr().out
    assert "no call stacks" in said and "Darshan" in said
    assert sum(READ[to](output).values()) > 0 if to in READ else output.stat().st_size


@pytest.mark.parametrize(
    ("words", "slug"),
    [
        (["--to", "darshan", "--max-size", "5M"], "contradictory-options"),
        (["--to", "pprof", "--with", "trace.json"], "contradictory-options"),
        (["--to", "chrome", "--with", "none.json"], "bad-trace"),
        (["--to", "chrome", "--max-size", "many"], "bad-size"),
        (["--to", "chrome", "-o", "trace.json"], "output-exists"),
    ],
)
def test_bad_options(
    words: list[str], slug: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    small_run(tmp_path / "run.pyio")
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": []}))
    assert main(["export", "run.pyio", *(["-o", "x"] if "-o" not in words else []), *words]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1 and said.err.endswith(f"[{slug}]\n")
    assert not (tmp_path / "x").exists()
