"""The commands on a small log: their output, and bad input in one line with status 2."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pyio_trace.cli.main import COMMANDS, main
from pyio_trace.errors import LogError
from pyio_trace.join.opening import open_log
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
    assert "pyio_trace: python train.py" in said("summary", log)
    figures = json.loads(said("summary", log, "--format", "json", "--top", "1"))
    assert figures["run"]["calls"] == 1_013 and len(figures["files"]) == 1 and figures["files_count"] == 4
    assert said("summary", log, "--output", "s.txt") == ""
    assert "Files by time" in (tmp_path / "s.txt").read_text()


def test_events(log: str, said: Said) -> None:
    text = said("events", log, "--op", "stat")
    assert text.splitlines()[1].split()[:5] == ["0.000079000", "0.000002000", "100", "posix", "stat"]
    rows = json.loads(said("events", log, "--format", "json", "--process", "200", "--limit", "1"))
    assert (rows[0]["time"], rows[0]["path"], len(rows[0])) == (START + 599_000, "/d/in.bin", 22)
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
    counters = json.loads(said("counters", log, "--format", "json"))
    assert [(row["why"], row["op"], row["count"], row["bytes"]) for row in counters] == [("counted", "pread", 7, 700)]


@pytest.mark.parametrize("pattern", ["in.bin", "*n.bin", "/d/in.bin", "/d/in*", "*/in.bin", "/d/in.bin/", "in.b[i]n"])
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


def test_pack(log: str, said: Said, tmp_path: Path) -> None:
    assert "run.parquet: 14 operations" in said("pack", log)
    assert open_log(tmp_path / "run.parquet").rows() == 14
    assert Path(log).exists()
    said("pack", log, "other.parquet", "--remove")
    assert not Path(log).exists() and (tmp_path / "other.parquet").exists()


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "run"])
def test_help_of_each_command(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main([name, "--help"])
    assert end.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: pyio-trace {name}")


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


@pytest.mark.parametrize("command", ["summary", "events", "files", "stacks", "counters", "pack"])
def test_bad_logs(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    make_bad_logs(tmp_path)
    capfd.readouterr()
    for name in ("nope.pyio", "text.pyio", "empty.pyio", "cut.pyio", "newer.pyio", "folder", "cut.parquet"):
        assert main([command, name]) == 2, name
        out, err = capfd.readouterr()
        assert out == "" and err.startswith("pyio-trace: ") and err.count("\n") == 1 and err.endswith("]\n"), err


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
        (["events", "LOG", "--min-duration", "soon"], "bad-value"),
        (["events", "LOG", "--limit", "few"], "bad-arguments"),
        (["files", "LOG", "--limit", "-1"], "bad-arguments"),
        (["summary", "LOG", "--top", "-1"], "bad-arguments"),
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
    """What the end of a run does (cli/commands/finish.py)."""

    def test_packs_and_prints(self, log: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
        assert main(["finish", log, "--final", str(tmp_path / "run.parquet")]) == 0
        out, err = capfd.readouterr()
        assert out == "" and "run.parquet" in err and "Files by time" in err
        assert not Path(log).exists() and open_log(tmp_path / "run.parquet").rows() == 14

    def test_quiet(self, log: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
        assert main(["finish", log, "--final", str(tmp_path / "run.parquet"), "--quiet"]) == 0
        assert capfd.readouterr() == ("", "")
        assert not Path(log).exists()

    def test_a_live_log_stays_live(self, log: str, capfd: pytest.CaptureFixture[str]) -> None:
        assert main(["finish", log]) == 0
        assert "pyio_trace: python train.py" in capfd.readouterr().err
        assert Path(log).exists()

    def test_a_process_still_lives(self, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
            writer = LogWriter(host=os.uname().nodename, boot_id=boot)
            writer.process(other.pid, begin=1_000)
            path = writer.save(tmp_path / "run.pyio")
            assert main(["finish", str(path), "--final", str(tmp_path / "run.parquet")]) == 0
            other.kill()
        assert f"still alive: {other.pid}" in capfd.readouterr().err
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
        assert main(["finish", log, "--final", str(tmp_path / "no" / "run.parquet"), "--quiet"]) == 0
        assert "the live log stays" in capfd.readouterr().err
        for error in (ValueError("x"), MemoryError(), KeyboardInterrupt(), LogError("log-damaged", "y")):

            def fail(*_: object, error: BaseException = error, **__: object) -> None:
                raise error

            monkeypatch.setattr("pyio_trace.analysis.summary.summarize", fail)
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
