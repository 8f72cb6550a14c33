"""From a command line to a launch: which words are our options, which are the program's, and what is refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest

from pyio_trace import open as open_log
from pyio_trace.capture.startup import command_line
from pyio_trace.cli.main import COMMANDS, main
from pyio_trace.config import Config
from pyio_trace.errors import ConfigError


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "s.py").write_text("pass\n")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "options", "kind", "target", "rest"),
    [
        (["s.py"], {}, "script", "s.py", []),
        (["s.py", "-o", "x", "-q"], {}, "script", "s.py", ["-o", "x", "-q"]),
        (["-o", "x", "-q", "s.py", "a"], {"output": "x", "quiet": "1"}, "script", "s.py", ["a"]),
        (["-ox", "--stacks=off", "s.py"], {"output": "x", "stacks": "off"}, "script", "s.py", []),
        (["--output", "x=y", "--", "s.py", "--"], {"output": "x=y"}, "script", "s.py", ["--"]),
        (["-q", "-m", "mod", "-c", "1"], {"quiet": "1"}, "module", "mod", ["-c", "1"]),
        (["-mmod", "-q"], {}, "module", "mod", ["-q"]),
        (["-c", "print(1)", "-m", "x"], {}, "code", "print(1)", ["-m", "x"]),
        (["-o", "x", "-o", "x", "s.py"], {"output": "x"}, "script", "s.py", []),
        (["--exclude", "a", "--exclude=b,c", "s.py"], {"exclude": "a,b,c"}, "script", "s.py", []),
        (["--instruments", "h5py", "--instruments=numpy", "s.py"], {"instruments": "h5py,numpy"}, "script", "s.py", []),
    ],
)
def test_words(words: list[str], options: dict[str, str], kind: str, target: str, rest: list[str]) -> None:
    assert command_line.parse(words) == (options, kind, target, rest)


@pytest.mark.parametrize(
    ("words", "slug", "hint"),
    [
        ([], "no-program", "which program"),
        (["-q"], "no-program", "which program"),
        (["nope.py"], "no-such-script", "'nope.py'"),
        (["sumary", "run.pyio"], "no-such-script", "did you mean summary?"),
        (["attach"], "no-such-script", "pyio-trace --help"),
        (["-"], "no-such-script", "standard input"),
        (["."], "no-such-script", "__main__.py"),
        (["--outptu", "x", "s.py"], "unknown-option", "did you mean --output?"),
        (["-z", "s.py"], "unknown-option", "-z"),
        (["-u", "s.py"], "unknown-option", "python -u -m pyio_trace"),
        (["-Xdev", "s.py"], "unknown-option", "python -Xdev -m pyio_trace"),
        (["-X", "dev", "s.py"], "unknown-option", "python -X dev -m pyio_trace"),
        (["-W", "error", "s.py"], "unknown-option", "python -W error -m pyio_trace"),
        (["-o"], "missing-value", "-o PATH"),
        (["-m"], "missing-value", "-m MODULE"),
        (["-c"], "missing-value", "-c CODE"),
        (["--quiet=1", "s.py"], "bad-value", "takes no value"),
        (["-o", "a", "--output=b", "s.py"], "contradictory-options", "'a' and as 'b'"),
        (["--stacks", "off", "--stacks", "full", "s.py"], "contradictory-options", "once"),
    ],
)
def test_what_cannot_be_meant(words: list[str], slug: str, hint: str) -> None:
    with pytest.raises(ConfigError) as problem:
        command_line.parse(words, tuple(COMMANDS))
    assert problem.value.slug == slug
    assert hint in str(problem.value)


#: First lines of files that are no Python, and of some that are.
OTHERS = [b"\x7fELF\x02", b"#!/bin/sh\necho hi", b"#!/usr/bin/env bash\n", b"#! /usr/bin/env -S perl -w\n"]
PYTHONS = [
    b"",
    b"pass",
    b"#!/usr/bin/python3\npass",
    b"#!/usr/bin/env -S uv run --script\npass",
    b"#!/bin/sh\n'''exec' /very/long/python \"$0\" \"$@\"\n' '''\npass",
    b"#!",
    b"#!/usr/bin/env\n",
]


@pytest.mark.parametrize("text", OTHERS)
def test_no_python(tmp_path: Path, text: bytes) -> None:
    # GIVEN a program in another language WHEN it is to be traced THEN one line says how
    (tmp_path / "prog").write_bytes(text)
    with pytest.raises(ConfigError, match="--follow=all") as problem:
        command_line.parse([str(tmp_path / "prog")])
    assert problem.value.slug == "no-python-script"


@pytest.mark.parametrize("text", PYTHONS)
def test_python_of_any_first_line(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "prog").write_bytes(text)
    assert command_line.parse([str(tmp_path / "prog")])[1] == "script"


def test_how_another_program_is_traced(tmp_path: Path) -> None:
    # GIVEN a shell script WHEN what the message says is done THEN it is traced, and its status is the run's
    (tmp_path / "prog").write_text("#!/bin/sh\ncat $1\nexit 7\n")
    (tmp_path / "prog").chmod(0o755)
    (tmp_path / "data").write_text("hello")
    with pytest.raises(ConfigError) as problem:
        command_line.parse([str(tmp_path / "prog")])
    how = str(problem.value).partition("trace it by: ")[2].replace("...", "data")
    how = how.replace("pyio-trace", f"{sys.executable} -P -m pyio_trace -q -o run.pyio")
    done = subprocess.run(["sh", "-c", how], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (7, "hello"), done.stderr
    rows = open_log(tmp_path / "run.pyio").operations().to_pylist()
    assert [row["op"] for row in rows if row["path"] == f"{tmp_path}/data" and row["op_class"] == "open"]


@pytest.mark.parametrize(
    ("words", "slug"),
    [
        (["nope.py"], "no-such-script"),
        (["--mode", "rings", "s.py"], "bad-value"),
        (["--mode", "profile", "--max-log-size", "0", "s.py"], "bad-size"),
        (["--exclude", "layer:nope", "s.py"], "bad-rule"),
        (["--min-size", "-4K", "s.py"], "bad-size"),
        (["--ring-size", "1K", "s.py"], "bad-size"),
        (["--follow", "everything", "s.py"], "bad-value"),
        (["--stacks", "fulll", "s.py"], "bad-value"),
        (["--max-log-size", "0", "s.py"], "bad-size"),
        (["--max-log-size", "lots", "s.py"], "bad-size"),
        (["-o", "-", "s.py"], "bad-value"),
        (["-o", "a", "-o", "b", "s.py"], "contradictory-options"),
        (["run", "--nope", "s.py"], "unknown-option"),
        (["--instruments", "nunpy", "-c", ""], "bad-value"),
    ],
)
def test_one_line_and_status_2(words: list[str], slug: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("pyio-trace: ") and err.endswith(f"[{slug}]\n") and err.count("\n") == 1


def test_an_operation_that_there_is_not(tmp_path: Path) -> None:
    # the core knows their names; in a source tree, which has none, its source does
    words = [sys.executable, "-m", "pyio_trace", "--exclude", "op:reed", "-c", "print('ran')"]
    for folder in (tmp_path, Path(__file__).parents[2]):
        done = subprocess.run(words, capture_output=True, text=True, cwd=folder)
        said = "pyio-trace: op:reed: there is no such operation; did you mean read? [bad-rule]\n"
        assert (done.returncode, done.stdout, done.stderr) == (2, "", said)


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Config, str, str, list[str]]]:
    """What main() hands to capture, which does not happen here."""
    calls: list[tuple[Config, str, str, list[str]]] = []

    def run(*arguments: Any) -> NoReturn:
        calls.append(arguments)
        raise SystemExit(7)

    monkeypatch.setattr("pyio_trace.capture.startup.reexec.run", run)
    for name in ("PYIO_TRACE", "PYIO_TRACE_OUTPUT", "PYIO_TRACE_QUIET"):
        monkeypatch.delenv(name, raising=False)
    return calls


def test_a_launch(launched: list[tuple[Config, str, str, list[str]]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYIO_TRACE_QUIET", "1")
    for words in (["--stacks", "site", "s.py", "1", "2"], ["run", "s.py"]):
        with pytest.raises(SystemExit):
            main(words)
    assert launched == [
        (Config(stacks="site", quiet=True), "script", "s.py", ["1", "2"]),
        (Config(quiet=True), "script", "s.py", []),
    ]


def test_a_script_that_is_named_like_a_command(launched: list[tuple[Config, str, str, list[str]]], here: Path) -> None:
    (here / "summary").write_text("pass\n")
    for words in (["./summary"], ["run", "summary"]):
        with pytest.raises(SystemExit):
            main(words)
    assert [call[2] for call in launched] == ["./summary", "summary"]
    assert main(["summary"]) == 2  # the command, which wants a LOG


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    for name in COMMANDS:
        assert f"  {name} " in text
    for flag in ("-o, --output PATH", "--max-log-size SIZE", "-q, --quiet"):
        assert flag in text
    assert main(["run", "--help"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("usage: pyio-trace run [options] script.py") and "--max-log-size SIZE" in text
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("pyio_trace ")
    assert main([]) == 0
