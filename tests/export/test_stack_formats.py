"""pprof, speedscope and folded stacks: totals are those of the log, frames lead to the line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyio_trace.cli.main import main
from tests.export.pictures import PROGRAM, export, hostile_log, many_operations, outer_sums
from tests.export.schemas import SPEEDSCOPE, valid
from tests.export.wire import Profile
from tests.support.programs import Outcome, Runner, succeeded
from tests.support.smallrun import small_run


@pytest.fixture
def outcome(program: Runner) -> Outcome:
    return succeeded(program.traced(PROGRAM, name="job.py"))


def speedscope(path: Path) -> dict[str, dict[str, int]]:
    """Profile -> weight by the innermost frames."""
    whole = json.loads(path.read_text())
    valid(whole, SPEEDSCOPE)
    frames = [one["name"] for one in whole["shared"]["frames"]]
    found: dict[str, dict[str, int]] = {}
    for profile in whole["profiles"]:
        assert len(profile["samples"]) == len(profile["weights"]) and sum(profile["weights"]) == profile["endValue"]
        sums = found.setdefault(profile["name"], {})
        for stack, weight in zip(profile["samples"], profile["weights"], strict=True):
            name = ";".join(frames[one] for one in stack)
            sums[name] = sums.get(name, 0) + weight
    return found


def test_totals_are_those_of_the_log(outcome: Outcome, tmp_path: Path) -> None:
    wanted = outer_sums(outcome.path)
    profile = Profile(export(outcome.path, tmp_path / "p", "pprof"))
    assert profile.types == [("calls", "count"), ("bytes", "bytes"), ("io_time", "nanoseconds")]
    assert {kind: profile.total(kind) for kind in wanted} == wanted and wanted["bytes"] > 100_000
    weights = speedscope(export(outcome.path, tmp_path / "s", "speedscope"))
    assert [sum(weights[one].values()) for one in ("calls", "bytes", "I/O time")] == list(wanted.values())


def test_frames_lead_to_the_line(outcome: Outcome, tmp_path: Path) -> None:
    profile = Profile(export(outcome.path, tmp_path / "p", "pprof"))
    file = str(outcome.path.parent / "job.py")
    (found,) = [
        values for frames, values in profile.samples
        if frames == [("<module>", file, 12), ("work", file, 6), ("BufferedWriter.write", "", 0)]
    ]  # fmt: skip
    assert (found["calls"], found["bytes"]) == (5, 45_000) and found["io_time"] > 0
    weights = speedscope(export(outcome.path, tmp_path / "s", "speedscope"))
    assert weights["bytes"]["<module>;work;BufferedWriter.write"] == 45_000


def test_folded_is_what_stacks_prints(outcome: Outcome, tmp_path: Path) -> None:
    assert main(["stacks", str(outcome.path), "--format", "folded", "--output", str(tmp_path / "one")]) == 0
    assert export(outcome.path, tmp_path / "two", "folded").read_bytes() == (tmp_path / "one").read_bytes() != b""


def test_a_run_by_hand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    profile = Profile(export(small_run(tmp_path / "run.pyio"), tmp_path / "p", "pprof"))
    lines = {(frames[0][1:], frames[-1][0]): values for frames, values in profile.samples}
    assert lines[("/home/u/train.py", 10), "TextIOWrapper.__next__"] == {
        "calls": 1_000, "bytes": 30_000, "io_time": 50_000,
    }  # fmt: skip
    assert lines[("/home/u/train.py", 20), "stat"] == {"calls": 1, "bytes": 0, "io_time": 2_000}
    said = capsys.readouterr().out
    assert "not complete" in said and "1 call of Python's imports left out" in said  # the other one lies within it


@pytest.mark.parametrize("size", ["300", "2K"])
def test_the_smallest_stacks_are_sums_by_line(size: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # GIVEN a log whose stacks do not fit WHEN it is exported THEN totals stay, and it says what is summed
    log = many_stacks(tmp_path / "run.pyio")
    profile = Profile(export(log, tmp_path / "p", "pprof", "--max-size", size))
    assert (tmp_path / "p").stat().st_size <= {"300": 300, "2K": 2048}[size]
    assert {kind: profile.total(kind) for kind in ("calls", "bytes", "io_time")} == outer_sums(log)
    said = capsys.readouterr().out
    left = [values for frames, values in profile.samples if frames[-1][0].startswith("(left out")]
    assert left and f"{sum(one['calls'] for one in left):,} call" in said and "sums by line" in said


def many_stacks(path: Path) -> Path:
    """A log of 400 stacks that end in 4 lines."""
    from tests.support.logwriter import LogWriter

    writer = LogWriter()
    thread = writer.thread(writer.process(5, begin=1_000, end=10_000_000), 5)
    desc = writer.desc(3, "/d/data", kind=1, dev=1, ino=1)
    for k in range(400):
        inner = writer.code("/d/inner.py", "f"), k % 4 + 1
        stack = writer.stack(inner, (writer.code("/d/outer.py", f"function{k}"), k + 1))
        thread.record("PREAD", begin=10_000 + k * 1_000, duration=100 + k, desc=desc, aux=3, offset=k, size=10,
                      result=10, stack=stack)  # fmt: skip
    return writer.save(path)


def test_hostile_names(tmp_path: Path) -> None:
    log = hostile_log(tmp_path / "run.pyio")
    profile = Profile(export(log, tmp_path / "p", "pprof"))
    weights = speedscope(export(log, tmp_path / "s", "speedscope"))
    export(log, tmp_path / "f", "folded")
    names = [name for frames, _ in profile.samples for name, _, _ in frames]
    assert all(name.isprintable() for name in [*names, *weights["bytes"]])
    assert profile.total("bytes") == sum(weights["bytes"].values()) == 6 * 9
    assert all(line.rpartition(" ")[2].isdecimal() for line in (tmp_path / "f").read_text().splitlines())


def test_pprof_is_the_same_each_time(tmp_path: Path) -> None:
    log = many_operations(tmp_path / "run.pyio")
    one, other = (export(log, tmp_path / name, "pprof").read_bytes() for name in "ab")
    assert one == other
