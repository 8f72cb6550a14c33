"""The commands on a small log: their output, and bad input in one line with status 2."""

from __future__ import annotations

import importlib
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pyio_trace.cli import parser
from pyio_trace.cli.main import COMMANDS, HIDDEN, main
from pyio_trace.errors import LogError
from pyio_trace.events import OPERATION_COLUMNS
from pyio_trace.join.sources.opening import open_log
from pyio_trace.join.tables.first_pass import FirstPass
from tests.support.logwriter import LogWriter
from tests.support.smallrun import START, small_run

ROOT = Path(__file__).parents[2]
Said = Callable[..., str]


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    return str(small_run(tmp_path / "run.pyio"))


@pytest.fixture
def said(capfdbinary: pytest.CaptureFixture[bytes]) -> Said:
    """Runs a command line that must succeed; what it printed."""

    def run(*words: str) -> str:
        assert main(list(words)) == 0
        out, err = capfdbinary.readouterr()
        assert err == b""
        return out.decode()

    return run


def test_summary(log: str, said: Said, tmp_path: Path) -> None:
    assert said("summary", log).startswith("pyio_trace: train.py  1 ms, 2 processes")
    assert "Access sizes" in said("summary", log, "--all") and "TIME " in said("summary", log, "--all")
    assert said("summary", log, "--section", "layers", "--section", "cost").splitlines()[0] == "Layers"
    figures = json.loads(said("summary", log, "--format", "json", "--top", "1"))
    assert figures["run"]["calls"] == 1_013 and len(figures["files"]) == 1 and figures["files_count"] == 4
    assert said("summary", log, "--output", "s.txt") == ""
    assert "FILES " in (tmp_path / "s.txt").read_text()


def test_events(log: str, said: Said) -> None:
    text = said("events", log, "--op", "stat")
    assert text.splitlines()[1].split()[:5] == ["0.000079000", "0.000002000", "100", "posix", "stat"]
    rows = json.loads(said("events", log, "--format", "json", "--process", "200", "--limit", "1"))
    assert (rows[0]["time"], rows[0]["path"], len(rows[0])) == (START + 599_000, "/d/in.bin", len(OPERATION_COLUMNS))
    rows = json.loads(
        said(
            "events",
            log,
            "--format",
            "json",
            "--columns",
            "duration,op",
            "--sort",
            "duration",
            "--min-duration",
            "50us",
        )
    )
    assert rows == [{"duration": None, "op": "read"}, {"duration": 100_000, "op": "epoch"},
                    {"duration": 50_000, "op": "TextIOWrapper.__next__"}]  # fmt: skip
    assert said("events", log, "--errors", "--columns", "op,path").splitlines()[1].split() == ["stat", "/d/none"]


def test_files_stacks_counters(log: str, said: Said, tmp_path: Path) -> None:
    lines = said("files", log, "--path", "*.bin", "--limit", "1").splitlines()
    assert len(lines) == 2 and lines[1].split()[:2] == ["/d/in.bin", "0.000067000"]
    assert said("files", log, "--format", "parquet", "--output", "f.parquet") == ""
    assert pq.read_table(tmp_path / "f.parquet").num_rows == 4
    assert "/home/u/train.py:20:main 27\n" in said("stacks", log, "--format", "folded")
    assert said("stacks", log, "--format", "csv").count("\n") == 4
    counters = json.loads(said("counters", log, "--unrecorded", "--format", "json"))
    assert [(row["why"], row["op"], row["calls"], row["bytes"]) for row in counters] == [("counted", "pread", 7, 700)]


def test_what_was_only_counted_has_neither_files_nor_lines(log: str, capfd: pytest.CaptureFixture[str]) -> None:
    # GIVEN sums of operations without a row WHEN the first rows are asked for THEN there are no more
    assert main(["counters", log, "--unrecorded", "--format", "json", "--limit", "0"]) == 0
    assert json.loads(capfd.readouterr().out) == []
    # WHEN files, lines or times are chosen among them THEN one line says that this is not possible
    for words in (["--path", "*.bin"], ["--since", "1ms"], ["--by-process"], ["--imports"]):
        assert main(["counters", log, "--unrecorded", *words]) == 2
        out, err = capfd.readouterr()
        assert out == "" and err.startswith("pyio-trace: counters: --unrecorded takes no ") and err.count("\n") == 1


@pytest.mark.parametrize("pattern", ["in.bin", "*n.bin", "/d/in.bin", "/d/in*", "**/in.bin", "/d/in.bin/", "in.b[i]n"])
def test_paths_are_named_as_in_selection(log: str, said: Said, pattern: str) -> None:
    """GIVEN a path by its name, its folder or a pattern WHEN operations and files are chosen THEN it is found."""
    rows = json.loads(said("events", log, "--format", "json", "--path", pattern, "--columns", "path"))
    assert {row["path"] for row in rows} == {"/d/in.bin"}
    rows = json.loads(said("files", log, "--format", "json", "--path", pattern))
    assert [row["path"] for row in rows] == ["/d/in.bin"]


def test_a_folder_stands_for_what_is_in_it(log: str, said: Said) -> None:
    for folder in ("/d", "d", "/d/", "../../../../../../../../../../../d"):
        rows = json.loads(said("events", log, "--format", "json", "--path", folder, "--columns", "path"))
        assert {row["path"] for row in rows} >= {"/d/in.bin", "/d/none"}, folder
    assert json.loads(said("events", log, "--format", "json", "--path", "in", "--columns", "path")) == []


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "run"])
def test_options_mean_the_same_in_all_commands(name: str) -> None:
    """--json is short for --format json, and -o for --output: where there is one there is the other."""
    module = importlib.import_module(f"pyio_trace.cli.commands.{name}_command")
    options = parser.Parser(f"pyio-trace {name}", module.__doc__)
    module.arguments(options)
    flags = {flag: action for action in options._actions for flag in action.option_strings}
    assert ("-o" in flags) == ("--output" in flags)
    assert ("--json" in flags) == ("json" in (getattr(flags.get("--format"), "choices", None) or ()))
    if "--json" in flags:
        assert (flags["--json"].dest, flags["--json"].const) == ("format", "json")


def test_pack_takes_its_output_either_way(log: str, said: Said, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert said("pack", log, "-o", "a.parquet").startswith("a.parquet: 14 operations")
    assert said("pack", log, "b.parquet").startswith("b.parquet: 14 operations")
    assert main(["pack", log, "a.parquet", "-o", "b.parquet"]) == 2
    assert b"named twice" in capfdbinary.readouterr().err


def test_what_needs_no_log_can_be_written_to_a_file(said: Said, tmp_path: Path) -> None:
    for words in (["views", "--json"], ["schema", "summary"]):
        shown = said(*words)
        assert said(*words, "-o", str(tmp_path / "f")) == ""
        assert (tmp_path / "f").read_text() == shown


def test_pack(log: str, said: Said, tmp_path: Path) -> None:
    assert "run.parquet: 14 operations" in said("pack", log)
    assert open_log(tmp_path / "run.parquet").rows() == 14
    assert Path(log).exists()
    said("pack", log, "other.parquet", "--remove")
    assert not Path(log).exists() and (tmp_path / "other.parquet").exists()


@pytest.mark.parametrize("name", [*(name for name in COMMANDS if name != "run"), *HIDDEN])
def test_help_of_each_command(name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as end:
        main([name, "--help"])
    assert end.value.code == 0
    text = capsys.readouterr().out
    assert text.startswith(f"usage: pyio-trace {name}")
    assert [line for line in text.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("words", [["--help"], ["run", "--help"]])
def test_help_fits_80_columns(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if len(line) > 80] == []


def make_bad_logs(folder: Path) -> None:
    good = small_run(folder / "good.pyio").read_bytes()
    (folder / "text.pyio").write_text("this is not a log")
    (folder / "empty.pyio").touch()
    (folder / "cut.pyio").write_bytes(good[:1000])
    newer = LogWriter()
    newer.header["version"] = 99
    newer.save(folder / "newer.pyio")
    (folder / "folder").mkdir()
    assert main(["pack", str(folder / "good.pyio")]) == 0
    (folder / "cut.parquet").write_bytes((folder / "good.parquet").read_bytes()[:-100])


@pytest.mark.parametrize(
    "words",
    [
        ["summary"], ["events"], ["files"], ["stacks"], ["counters"], ["counters", "--unrecorded"], ["pack"],
        ["insights"], ["processes"], ["view", "by_line"], ["diff", "good.pyio"], ["report"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_bad_logs(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    make_bad_logs(tmp_path)
    capfd.readouterr()
    for name in ("nope.pyio", "text.pyio", "empty.pyio", "cut.pyio", "newer.pyio", "folder", "cut.parquet"):
        assert main([*words, name]) == 2, name
        out, err = capfd.readouterr()
        assert out == "" and err.startswith("pyio-trace: ") and err.count("\n") == 1 and err.endswith("]\n"), err


@pytest.mark.parametrize(("former", "now"), [("count", "calls"), ("size", "bytes_requested"), ("stack", "call_stack")])
def test_a_column_by_its_earlier_name(former: str, now: str, log: str, capfd: pytest.CaptureFixture[str]) -> None:
    # WHEN somebody names a column as it was called once THEN the error says what it is called now
    assert main(["events", log, "--columns", f"op,{former}"]) == 2
    assert f"there is no column '{former}'; it is {now} now" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("words", "slug"),
    [
        (["summary"], "bad-arguments"),
        (["summary", "LOG", "more"], "unknown-option"),
        (["summary", "LOG", "--fromat", "json"], "unknown-option"),
        (["summary", "LOG", "--format", "xml"], "bad-arguments"),
        (["summary", "LOG", "--output", "no/where"], "unwritable-output"),
        (["events", "LOG", "--layer", "posx"], "bad-value"),
        (["events", "LOG", "--op", "raed"], "bad-value"),
        (["events", "LOG", "--columns", "tiem"], "bad-value"),
        (["events", "LOG", "--sort", "sise"], "bad-value"),
        (["events", "LOG", "--sort", ""], "bad-value"),
        (["events", "LOG", "--so\nrt", "time"], "unknown-option"),
        (["events", "LOG", "--min-duration", "soon"], "bad-duration"),
        (["events", "LOG", "--limit", "few"], "bad-arguments"),
        (["files", "LOG", "--limit", "-1"], "bad-arguments"),
        (["summary", "LOG", "--top", "-1"], "bad-arguments"),
        (["view", "by_line"], "bad-arguments"),
        (["view", "by_lin", "LOG"], "bad-value"),
        (["diff", "LOG"], "bad-arguments"),
        (["doctor", "1", "more"], "unknown-option"),
        (["summary", ""], "no-such-log"),
        (["files", "LOG", "--output", "LOG"], "contradictory-options"),
        (["summary", "LOG", "--output", "LOG"], "contradictory-options"),
        (["doctor", "."], "no-such-script"),
        (["pack", "packed.parquet"], "contradictory-options"),
        (["pack", "LOG", ""], "missing-value"),
        (["files", "LOG", "--format", "parquet"], "missing-value"),
        (["files", "LOG", "--output", "no/where"], "unwritable-output"),
        (["pack", "LOG", "LOG"], "contradictory-options"),
        (["pack", "LOG", "theirs.txt"], "log-exists"),
    ],
)
def test_bad_words(words: list[str], slug: str, log: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "theirs.txt").write_text("mine")
    assert main(["pack", log, "packed.parquet"]) == 0
    capfd.readouterr()
    before = Path(log).read_bytes()
    assert main([log if word == "LOG" else word for word in words]) == 2
    out, err = capfd.readouterr()
    assert out == "" and err.startswith("pyio-trace: ") and err.endswith(f"[{slug}]\n") and err.count("\n") == 1
    assert Path(log).read_bytes() == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["view", "by_line"], "the following arguments are required: LOG; see"),
        (["events", "LOG", "--limit", "few"], "argument --limit: 'few' is not a number of rows"),
        (["summary", "LOG", "--top", "-1"], "argument --top: '-1' is not a number of rows"),
        (["summary", "LOG", "more"], "unexpected argument 'more'; see pyio-trace summary --help"),
    ],
)
def test_what_is_wrong(words: list[str], said: str, log: str, capfd: pytest.CaptureFixture[str]) -> None:
    # WHEN an argument is wrong THEN one line names it, and nothing more is printed
    assert main([log if word == "LOG" else word for word in words]) == 2
    assert said in capfd.readouterr().err


def test_pack_makes_the_tables_of_a_log_once(log: str, said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN a live log, whose tables may take gigabytes WHEN it is packed THEN they are made once
    made, make = [], FirstPass.__init__

    def counted(self: FirstPass, *args: Any) -> None:
        made.append(self)
        make(self, *args)

    monkeypatch.setattr(FirstPass, "__init__", counted)
    assert "run.parquet: 14 operations" in said("pack", log)
    assert len(made) == 1


def test_a_folder_is_packed_beside_itself(
    log: str, said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "runs").mkdir()
    Path(log).rename(tmp_path / "runs" / "run.pyio")
    monkeypatch.chdir(tmp_path / "runs")
    assert "14 operations" in said("pack", ".")
    assert open_log(tmp_path / "runs.parquet").rows() == 14
    assert os.listdir() == ["run.pyio"]


def test_head_is_not_a_failure(log: str) -> None:
    """`pyio-trace events LOG | head -1`: the pipe is closed early."""
    words = [sys.executable, "-c", "import sys; from pyio_trace.cli.main import main; sys.exit(main(sys.argv[1:]))"]
    reading, writing = os.pipe()
    os.close(reading)
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([*words, "events", log], stdout=writing, stderr=subprocess.PIPE, env=environ, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


class TestFinish:
    """What the end of a run does (cli/commands/finish_command.py)."""

    def test_packs_and_prints(self, log: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
        assert main(["finish", log, "--final", str(tmp_path / "run.parquet")]) == 0
        out, err = capfd.readouterr()
        assert out == "" and "run.parquet" in err and "\nDATA  " in err and "\nnext: pyio-trace insights " in err
        assert not Path(log).exists() and open_log(tmp_path / "run.parquet").rows() == 14

    def test_quiet(self, log: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
        assert main(["finish", log, "--final", str(tmp_path / "run.parquet"), "--quiet"]) == 0
        assert capfd.readouterr() == ("", "")
        assert not Path(log).exists()

    def test_a_live_log_stays_live(self, log: str, capfd: pytest.CaptureFixture[str]) -> None:
        assert main(["finish", log]) == 0
        assert "train.py  1 ms, 2 processes" in capfd.readouterr().err
        assert Path(log).exists()

    def test_a_process_still_lives(self, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
            writer = LogWriter(host=os.uname().nodename, boot_id=boot)
            writer.process(other.pid, begin=1_000)
            path = writer.save(tmp_path / "run.pyio")
            assert main(["finish", str(path), "--final", str(tmp_path / "run.parquet")]) == 0
            other.kill()
        assert f"processes still run: {other.pid}" in capfd.readouterr().err
        assert path.exists() and not (tmp_path / "run.parquet").exists()

    def test_the_process_that_waits_for_us_does_not_count(self, tmp_path: Path) -> None:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        writer = LogWriter(host=os.uname().nodename, boot_id=boot)
        writer.process(os.getppid(), begin=1_000)
        path = writer.save(tmp_path / "run.pyio")
        assert main(["finish", str(path), "--final", str(tmp_path / "run.parquet"), "--quiet"]) == 0
        assert (tmp_path / "run.parquet").exists()

    def test_never_fails(
        self, log: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert main(["finish", str(tmp_path / "none.pyio")]) == 0
        assert capfd.readouterr().err.count("\n") == 1
        for quiet in ([], ["--quiet"]):
            assert main(["finish", log, "--final", str(tmp_path / "no" / "run.parquet"), *quiet]) == 0
            assert capfd.readouterr().err.count("the live log stays") == (not quiet)
        for error in (ValueError("x"), MemoryError(), KeyboardInterrupt(), LogError("log-damaged", "y")):

            def fail(*_: object, error: BaseException = error, **__: object) -> None:
                raise error

            monkeypatch.setattr("pyio_trace.analysis.summary.summary_sums.SummarySums.partial", fail)
            assert main(["finish", log, "--final", str(tmp_path / "run.parquet")]) == 0
            err = capfd.readouterr().err
            assert err.count("\n") == 1 and "the live log stays" in err
        assert Path(log).exists()


def test_doctor(capsys: pytest.CaptureFixture[str]) -> None:
    from pyio_trace import native

    status = main(["doctor", "--no-trial"])
    text = capsys.readouterr().out
    assert status == (0 if native.available() else 1)
    for part in ("python:", "core:", "logs go to:", "clock:", "PYIO_TRACE=1 alone:"):
        assert part in text


def test_processes(log: str, said: Said, tmp_path: Path) -> None:
    # GIVEN a log of a program and a forked child that was killed
    # WHEN its processes are listed THEN the child is beneath the program that started it
    lines = [re.split(r" {2,}", line.strip()) for line in said("processes", log).splitlines()]
    assert lines[0] == ["process", "time", "duration", "ended", "site", "command"]
    assert [line[0] for line in lines[1:]] == ["train.py (100)", "python -c (200)"]
    assert said("processes", log).splitlines()[2].startswith("  python -c (200)  ")
    assert [line[3] for line in lines[1:]] == ["exit 0", "signal 9 (SIGKILL)"]
    # AND other formats have every column of the table
    rows = json.loads(said("processes", log, "--format", "json"))
    assert list(rows[0]) == open_log(log).processes().column_names
    assert [(row["process_name"], row["argv"]) for row in rows] == [
        ("train.py", "python train.py"), ("python -c", "python -c pass"),
    ]  # fmt: skip
    assert said("processes", log, "--format", "csv").count("\n") == 3


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("soon", "shown"), [(0.0, True), (1e9, False)])
def test_progress_is_drawn_for_work_that_lasts(monkeypatch: pytest.MonkeyPatch, soon: float, shown: bool) -> None:
    # GIVEN long work on a terminal, and a limit that has passed or never will
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(parser, "_SOON", soon)
    # WHEN it goes on THEN its bar is drawn only if the limit has passed
    with parser.progress("counting", parser.LONG_WORK) as bar:
        assert bar is not None
        bar(parser.LONG_WORK // 2)
    assert ("counting" in screen.getvalue()) == shown
