"""The first screen of a run that was sampled: the lines that held the time, what they did, and what "other" was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyio_trace.cli.main import main
from pyio_trace.report.schemas import schema_of
from tests.analysis.test_line_times import MS, Run, at
from tests.support.smallrun import small_run

pytestmark = pytest.mark.once

TELL = ("/usr/lib/python3.11/_pyio.py", "TextIOWrapper.tell", 2500)


def screen(path: Path, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["summary", str(path), *words]) == 0
    return capsys.readouterr().out


def sampled(folder: Path) -> Path:
    """Two seconds: 1 s in tell(), 0.3 s asleep, 0.5 s in reads, 0.2 s waiting for the GIL."""
    run = Run(folder)
    thread, read = run.writer.thread(run.process, 100), run.stack(at(7))
    for number in range(50):
        thread.record(
            "PREAD", begin=(1 + 10 * number) * MS, duration=10 * MS, desc=run.file, size=9, result=9, stack=read
        )
    run.writer.sample(run.process, 100, "system call", begin=MS, ticks=500 * MS, samples=50, stack=read)
    for begin, ticks, state, frames in (
        (501, 1000, "running", [at(5), TELL]), (1501, 300, "sleep", [at(6)]), (1801, 200, "gil", [at(8)]),
    ):  # fmt: skip
        stack = run.stack(*frames)
        run.writer.sample(run.process, 100, state, begin=begin * MS, ticks=ticks * MS, samples=ticks // 10, stack=stack)
    return ended(run, 2001)


def ended(run: Run, ms: int) -> Path:
    entry = run.process << 4
    run.writer.put(entry + _offset("end"), (ms * MS).to_bytes(8, "little"))
    run.writer.put(entry + _offset("end_kind"), (1).to_bytes(4, "little"))
    return run.writer.save(run.path)


def _offset(name: str) -> int:
    from pyio_trace.log import layout

    fields = layout.PROCESS_ENTRY.fields
    assert fields is not None
    return int(fields[name][1])


def test_lines_are_by_wall_time_and_say_what_held_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = screen(sampled(tmp_path), capsys).splitlines()
    at_lines = lines.index("LINES      wall             I/O  what")
    rows = [" ".join(line.split()) for line in lines[at_lines + 1 : at_lines + 5]]
    assert rows == [
        "1 s 50 % - train.py:5 _pyio.TextIOWrapper.tell: computing",
        "500 ms 25 % 500 ms train.py:7: 50 pread of /data/a.bin",
        "300 ms 15 % - train.py:6: asleep",
        "200 ms 10.0 % - train.py:8: waits for the GIL",
    ]
    (computing,) = (line for line in lines if line.startswith("Computing took "))
    assert computing.endswith(", 50 % of the run, most at train.py:5.")
    assert "Sleeping took 300 ms, 15 % of the run, most at train.py:6." in lines
    (states,) = (line.strip() for line in lines if line.startswith("    computing"))
    names = [part.split()[0] for part in states.split(", ")]
    assert names == ["computing", "I/O", "asleep", "GIL"] and "asleep 300 ms, GIL 200 ms" in states
    assert " other" not in "\n".join(lines[:at_lines]) and max(map(len, lines[:-1])) <= 80


def test_a_program_without_calls_has_lines_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Run(tmp_path)
    run.writer.sample(run.process, 100, "sleep", begin=MS, ticks=900 * MS, samples=90, stack=run.stack(at(3)))
    text = screen(run.writer.save(run.path), capsys)
    assert "train.py:3: asleep" in text


def test_a_line_that_waits_says_where_the_others_were(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Run(tmp_path)
    run.writer.sample(run.process, 100, "lock", begin=MS, ticks=900 * MS, samples=90, stack=run.stack(at(3)))
    run.writer.sample(run.process, 101, begin=MS, ticks=800 * MS, samples=80, stack=run.stack(at(7, "work")))
    assert "train.py:3: waits for a lock, in train.py:7\n" in screen(run.writer.save(run.path), capsys)


def test_on_a_busy_machine_a_line_that_computes_is_said_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Run(tmp_path)
    stack, amounts = run.stack(at(3)), {"cpu": 300 * MS, "delay": 600 * MS}
    run.writer.sample(run.process, 100, begin=MS, ticks=900 * MS, samples=90, stack=stack, **amounts)
    run.writer.put((run.process << 4) + _offset("script_since"), MS.to_bytes(8, "little"))
    text = screen(ended(run, 901), capsys)
    assert "train.py:3: computing, 67 % without a processor" in text
    assert "Computing took 900 ms, 67 % of it waiting for a processor, most at train.py:3.\n" in text


def test_the_json_has_what_samples_say_only_where_there_are_some(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    check = jsonschema.Draft202012Validator(schema_of("summary")).validate
    with_samples = json.loads(screen(sampled(tmp_path), capsys, "--json"))
    without = json.loads(screen(small_run(tmp_path / "small.pyio"), capsys, "--json"))
    check(with_samples), check(without)
    split = with_samples["overview"]["kinds"][0]["split"]
    known = sum(split[name] for name in ("computing_ns", "gil_ns", "asleep_ns"))
    assert split["other_ns"] - MS < known <= split["other_ns"] == 1500 * MS  # reads are placed to a millisecond
    assert with_samples["overview"]["wall"][0]["called"][0]["function"] == "_pyio.TextIOWrapper.tell"
    assert "wall" not in without["overview"] and "computing_ns" not in without["overview"]["kinds"][0]["split"]
