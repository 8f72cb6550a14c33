"""pyio-trace diff: programs whose operations are counted, before and after a change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pyio_trace.analysis.compare.conditions import parse_condition
from pyio_trace.cli.main import main
from tests.support.programs import Runner
from tests.support.smallrun import small_run

Capture = pytest.CaptureFixture[str]

#: Writes 20 files of 1,000 bytes, and reads each of them.
BEFORE = """
    import os

    def load(number):
        with open(f"data/img{number}.bin", "rb", buffering=0) as file:
            return file.read(1000)

    os.mkdir("data")
    for number in range(20):
        with open(f"data/img{number}.bin", "wb", buffering=0) as file:
            file.write(bytes(1000))
    for number in range(20):
        load(number)
"""
#: The same with a stat before each open, on a new line; and each file is read three times.
AFTER = """
    import os

    #: how often
    TIMES = 3

    def load(number):
        os.stat(f"data/img{number}.bin")
        with open(f"data/img{number}.bin", "rb", buffering=0) as file:
            return file.read(1000)

    os.mkdir("data")
    for number in range(20):
        with open(f"data/img{number}.bin", "wb", buffering=0) as file:
            file.write(bytes(1000))
    for number in range(TIMES * 20):
        load(number % 20)
"""


def test_processes_are_those_that_were_followed(tmp_path: Path, capsys: Capture) -> None:
    # GIVEN a program that runs another one, which is not followed WHEN it is compared with itself
    log = traced(tmp_path / "a", "import subprocess; subprocess.run(['uname'], stdout=subprocess.DEVNULL)")
    assert main(["diff", log, log]) == 0
    # THEN it is one process, as the summary says
    assert all(", 1 process  " in line for line in capsys.readouterr().out.split("\n")[:2])


def traced(folder: Path, text: str) -> str:
    """Runs a program in a new folder; its log."""
    folder.mkdir(parents=True)
    done = Runner(folder).traced(text)
    assert done.status == 0, done.stderr
    return str(done.path)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str, str]:
    """A run, the same again, and one of the changed program; each in its own folder."""
    folder = tmp_path_factory.mktemp("runs")
    return traced(folder / "a", BEFORE), traced(folder / "again", BEFORE), traced(folder / "b", AFTER)


def compared(capsys: Capture, *words: str, status: int = 0) -> Any:
    """What diff prints as JSON."""
    assert main(["diff", "--json", *words]) == status
    out, err = capsys.readouterr()
    assert err == ""
    return json.loads(out)


def said(capsys: Capture, *words: str, status: int = 0) -> list[str]:
    """The lines that diff prints."""
    assert main(["diff", *words]) == status
    out, err = capsys.readouterr()
    assert err == ""
    lines = out.splitlines()
    assert max(map(len, lines)) <= 80, max(lines, key=len)
    return lines


def test_counts(logs: tuple[str, str, str], capsys: Capture) -> None:
    # GIVEN a program, and a version that makes 40 opens, 40 reads and 60 stats more
    found = compared(capsys, logs[0], logs[2])
    before, after = found["before"], found["after"]
    # WHEN they are compared THEN the totals differ by as much
    difference = {name: after[name] - before[name] for name in before}
    assert difference["opens"] == 40 and difference["reads"] == 40 and difference["writes"] == 0
    assert difference["bytes_read"] == 40_000 and difference["bytes_written"] == 0
    assert difference["files"] == 0
    # AND so do those of the files, which are one pattern, by their place in the folders of the runs
    images = next(one for one in found["files"] if one["pattern"] == "./data/img*.bin")
    assert (images["before"]["files"], images["after"]["files"]) == (20, 20)
    assert (images["before"]["opens"], images["after"]["opens"]) == (40, 80)
    assert (images["before"]["bytes_read"], images["after"]["bytes_read"]) == (20_000, 60_000)
    assert (images["before"]["bytes_written"], images["after"]["bytes_written"]) == (20_000, 20_000)
    operations = {(one["layer"], one["op"]): (one["calls_before"], one["calls_after"]) for one in found["operations"]}
    stats = operations["posix", "stat"]
    assert stats[1] - stats[0] == 60
    assert operations["app", "FileIO.read"] == (20, 60)
    assert operations["app", "FileIO.write"] == (20, 20)


def test_lines_that_have_moved(logs: tuple[str, str, str], capsys: Capture) -> None:
    # GIVEN a source in which three lines were inserted WHEN runs of both versions are compared
    found = compared(capsys, logs[0], logs[2])
    lines = {place(one["site"]): one for one in found["lines"]}
    # THEN lines are matched by what they do in which function, and the new one has no match
    assert place(lines["9:load"]["before_site"]) == "5:load"
    assert (lines["9:load"]["before"]["opens"], lines["9:load"]["after"]["opens"]) == (20, 60)
    assert place(lines["10:load"]["before_site"]) == "6:load"
    assert (lines["10:load"]["before"]["bytes_read"], lines["10:load"]["after"]["bytes_read"]) == (20_000, 60_000)
    assert lines["8:load"]["before_site"] is None
    assert lines["8:load"]["before"]["metadata"] == 0 and lines["8:load"]["after"]["metadata"] == 60
    assert place(lines["14:<module>"]["before_site"]) == "10:<module>"
    assert lines["15:<module>"]["before"]["bytes_written"] == lines["15:<module>"]["after"]["bytes_written"] == 20_000


def place(site: str | None) -> str:
    return site.split(":", 1)[1] if site else ""


def test_the_first_lines_answer(logs: tuple[str, str, str], capsys: Capture) -> None:
    lines = said(capsys, logs[0], logs[2])
    text = " ".join(lines[:10])
    assert "B made 40 opens more" in text and "40 reads more" in text
    assert "times the bytes (58.6 KiB" in text or "times the bytes (59" in text, text
    # the place may come later: by chance a call took so long that its time is shown first
    assert "./data/img*.bin (20 files)" in " ".join(lines)
    joined = "\n".join(lines)
    assert "(line 5 in A)" in joined and "(only in B)" in joined
    assert any(line.split()[:4] == ["opens", "20", "60", "+40"] for line in lines)


def test_the_same_again(logs: tuple[str, str, str], capsys: Capture) -> None:
    # GIVEN two runs of one program in two folders WHEN they are compared THEN every count is the same
    lines = said(capsys, logs[0], logs[1], "--fail-if", "counts>+0", "--fail-if", "counts<-0")
    assert lines[0] == "passed  none of 2 conditions holds"
    assert "B did the same: as many opens, reads, writes, other calls, errors, files" in lines[5]


#: condition -> exit status, for the run before against the one after
CONDITIONS = {
    "opens>+0": 1,
    "opens>+39": 1,
    "opens>+40": 0,
    "opens >= +40": 1,
    "writes>+0": 0,
    "writes!=+0": 0,
    "counts>+0": 1,
    "bytes_written==+0": 1,
    "bytes_read>+40K": 0,
    "bytes_read>+39K": 1,
    "bytes_read>1G": 0,
    "opens[img*.bin]>79": 1,
    "opens[img*.bin]>80": 0,
    "opens[*/data]>79": 0,
    "opens[data]>+100%": 0,
    "opens[data]>=+100%": 1,
    "opens[img1.bin]==4": 1,
    "opens[nothing]>+5%": 0,
    "files[img*.bin]==20": 1,
    "reads<-1": 0,
    "wall>1h": 2,
    "wall>+1000s": 0,
    "time>+1000s": 0,
    "opens": 2,
    "opens>": 2,
    "opens>few": 2,
    "opens>5%": 2,
    "opened>+0": 2,
    "opens[]>+0": 2,
    "wall[x]>+0s": 2,
    "opens>+1e9%": 2,
    "opens>99999999999999999999": 2,
    "bytes_read>+5X": 2,
    "": 2,
}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_conditions(condition: str, logs: tuple[str, str, str], capsys: Capture) -> None:
    status = CONDITIONS[condition]
    assert main(["diff", logs[0], logs[2], "--fail-if", condition]) == status
    out, err = capsys.readouterr()
    if status == 2:
        assert out == "" and err.count("\n") == 1 and "--fail-if" in err
    else:
        assert out.startswith("FAILED" if status else "passed") and err == ""


def test_conditions_as_json(logs: tuple[str, str, str], capsys: Capture) -> None:
    found = compared(capsys, logs[0], logs[2], "--fail-if", "opens[img*.bin]>+0", "--fail-if", "writes>+0", status=1)
    opens, writes = found["conditions"]
    assert (opens["figure"], opens["pattern"], opens["before"], opens["after"], opens["holds"]) == (
        "opens", "img*.bin", 40, 80, True,
    )  # fmt: skip
    assert not writes["holds"]


def test_a_selection(logs: tuple[str, str, str], capsys: Capture) -> None:
    found = compared(capsys, logs[0], logs[2], "--op", "read", "--path", "img1*.bin", "--layer", "posix")
    # img1 and img10 to img19, read once and three times
    assert (found["before"]["calls"], found["after"]["calls"]) == (11, 33)
    # AND what only one of the runs did is no mistake
    assert compared(capsys, logs[0], logs[2], "--line", "program.py:9")["before"]["calls"] == 0


def test_copies(program: Runner, tmp_path: Path, capsys: Capture) -> None:
    # GIVEN a program that copies a file of 5,000 bytes once, and then thrice
    text = """
        import shutil, sys
        for number in range({times}):
            shutil.copyfile("from.bin", f"to-{{number}}.bin")
    """
    logs = []
    (tmp_path / "from.bin").write_bytes(bytes(5_000))
    for times in (1, 3):
        done = program.traced(text.format(times=times), log=f"{times}.pyio")
        assert done.status == 0
        logs.append(str(done.path))
    # WHEN the runs are compared THEN the bytes were read from the one, and written to the others
    found = compared(capsys, *logs)
    files = {one["pattern"]: one for one in found["files"]}
    source = files[str(tmp_path / "from.bin")]
    assert (source["before"]["bytes_read"], source["after"]["bytes_read"]) == (5_000, 15_000)
    copies = files[str(tmp_path / "to-*.bin")]
    assert (copies["before"]["bytes_written"], copies["after"]["bytes_written"]) == (5_000, 15_000)
    assert (copies["before"]["files"], copies["after"]["files"]) == (1, 3)


def test_a_series(program: Runner, tmp_path: Path, capsys: Capture) -> None:
    # GIVEN runs with 1, 2 and 4 processes; each child makes 50 stats and writes 100,000 bytes
    text = """
        import os, subprocess, sys

        if len(sys.argv) == 3:
            for _ in range(50):
                os.stat("/usr")
            with open(f"part-{sys.argv[2]}", "wb") as file:
                file.write(bytes(100_000))
        else:
            words = [sys.executable, "program.py", "child"]
            children = [subprocess.Popen([*words, str(n)]) for n in range(int(sys.argv[1]))]
            sys.exit(max(child.wait() for child in children))
    """
    logs = []
    for number in (1, 2, 4):
        done = program.traced(text, number, log=f"{number}.pyio")
        assert done.status == 0, done.stderr
        logs.append(str(done.path))
    # WHEN they are compared THEN each has a line with its processes, and the figures of the JSON are those counted
    steps = compared(capsys, *logs)["steps"]
    assert [step["run"]["processes"] for step in steps] == [2, 3, 5]
    stats = compared(capsys, *logs, "--op", "stat", "--path", "/usr", "--layer", "posix")["steps"]
    assert [step["metadata"] for step in stats] == [50, 100, 200]
    assert [step["counts"]["bytes_written"] for step in steps] == [100_000, 200_000, 400_000]
    for step, first in zip(steps, [steps[0]] * 3, strict=True):
        assert step["speedup"] == first["run"]["wall"] / step["run"]["wall"]
        assert step["efficiency"] == step["speedup"] / (step["run"]["processes"] / 2)
    lines = said(capsys, *logs, "--fail-if", "bytes_written>+300000")
    assert lines[0].startswith("passed") and lines[2].startswith("From 2 to 5 processes: the run is ")
    assert [line.split()[1] for line in lines if line.split(" ")[0].endswith(".pyio")] == ["2", "3", "5"]
    said(capsys, *logs, "--fail-if", "bytes_written>+299999", status=1)


def test_a_log_that_is_not_whole_says_so(tmp_path: Path, capsys: Capture) -> None:
    # GIVEN a log whose disk was full: 7 operations were only counted
    log = str(small_run(tmp_path / "run.pyio"))
    assert "incomplete: 7 operations were counted only" in "\n".join(said(capsys, log, log))


def test_output(logs: tuple[str, str, str], tmp_path: Path, capsys: Capture) -> None:
    assert said(capsys, logs[0], logs[2], "--all")[0].startswith("A  ")
    assert main(["diff", logs[0], logs[2], "--output", str(tmp_path / "out.txt"), "--top", "1"]) == 0
    assert capsys.readouterr() == ("", "")
    assert "FILES (1 of" in (tmp_path / "out.txt").read_text() or "FILES " in (tmp_path / "out.txt").read_text()
    before = Path(logs[2]).read_bytes()
    assert main(["diff", logs[0], logs[2], "--output", logs[2]]) == 2
    assert Path(logs[2]).read_bytes() == before


@pytest.mark.parametrize("words", [[], ["LOG"], ["LOG", "none.pyio"], ["LOG", "LOG", "--op", "raed"]])
def test_bad_words(words: list[str], logs: tuple[str, str, str], capsys: Capture) -> None:
    assert main(["diff", *(logs[0] if word == "LOG" else word for word in words)]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "limit", "relative"),
    [("opens>+5", 5, True), ("opens<-5", -5, True), ("opens<=5", 5, False), ("time<-2ms", -2_000_000, True)],
)
def test_limits_of_conditions(text: str, limit: int, relative: bool) -> None:
    condition = parse_condition(text)
    assert (condition.limit, condition.relative) == (limit, relative)
