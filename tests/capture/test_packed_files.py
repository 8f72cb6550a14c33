"""The end of a run leaves a private packed log and touches no file that is not its own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pyio_trace.cli.main import main
from pyio_trace.join.sources.opening import open_log
from tests.support.logwriter import LogWriter
from tests.support.programs import Outcome, Runner, succeeded

#: With a summary, each line of which is one line, however long the names in it are.
LOUD: dict[str, str | None] = {"PYIO_TRACE_QUIET": None, "COLUMNS": "1000"}
IMPORTS = "import os, shutil, sys\nopen('data', 'w').close()\n"
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")


def run(program: Runner, text: str, log: str = "results.parquet", **env: str | None) -> Outcome:
    """A traced program that does I/O, with a summary."""
    return succeeded(program.traced(IMPORTS + text, log=log, env={**LOUD, **env}))


def ours(outcome: Outcome) -> list[str]:
    """The lines of ours that are no summary."""
    return [line for line in outcome.stderr.splitlines() if line.startswith("pyio-trace: ")]


def opens(path: Path) -> int:
    """How many times the log says that the program opened its data."""
    return sum(row["op"] == "open" and row["layer"] == "posix" and row["path"].endswith("/data")
               for row in open_log(path).operations().to_pylist())  # fmt: skip


#: What a program puts at the name of its own log -> how that is seen afterwards to be as it was.
TAKEN = {
    "its results": ("open(name, 'w').write('mine')", lambda path: path.read_text() == "mine"),
    "nothing yet": ("open(name, 'w').close()", lambda path: path.stat().st_size == 0),
    "a link to its results": (
        "open('other', 'w').write('mine'); os.symlink('other', name)",
        lambda path: path.is_symlink() and path.read_text() == "mine",
    ),
    "a link to nothing": (
        "os.symlink('nothing', name)",
        lambda path: path.is_symlink() and not os.path.lexists(path.with_name("nothing")),
    ),
    "a second name of its results": (
        "open('other', 'w').write('mine'); os.link('other', name)",
        lambda path: path.read_text() == "mine" and path.stat().st_nlink == 2,
    ),
    "a FIFO": ("os.mkfifo(name)", lambda path: path.is_fifo()),
    "a folder": ("os.mkdir(name)", lambda path: path.is_dir()),
    "another user's log": (
        "shutil.copy('old.pyio', name); os.utime(name, (0, 0)); os.chown(name, 65534, 65534)",
        lambda path: path.stat().st_uid == 65534,
    ),
}


@pytest.mark.parametrize("what", [pytest.param(what, marks=root_only) if "user" in what else what for what in TAKEN])
def test_the_name_is_taken_during_the_run(program: Runner, what: str) -> None:
    # GIVEN a program that makes something of the very name that its log is to have
    line, is_as_it_was = TAKEN[what]
    LogWriter().save(program.folder / "old.pyio")
    # WHEN it ends
    outcome = run(program, f"name = 'results.parquet'\n{line}")
    # THEN that is unchanged, the log has another name in the same folder, and one line says so
    assert is_as_it_was(program.folder / "results.parquet")
    assert opens(program.folder / "results-2.parquet") == 1
    assert [line for line in ours(outcome) if "results-2.parquet" in line] == ours(outcome) != []
    assert "next: pyio-trace insights results-2.parquet  (" in outcome.stderr
    assert not (program.folder / "results.pyio").exists()


def test_the_name_is_taken_during_a_stretch(program: Runner) -> None:
    # GIVEN a part of a program that makes a file of the name of its own log WHEN it is over
    text = """
    import pyio_trace, sys
    with pyio_trace.trace("results.parquet") as run:
        with open("results.parquet", "w") as file: file.write("mine")
    print(run.path)
    """
    outcome = succeeded(program.bare(text))
    # THEN that is unchanged, and `path` is where the log is
    assert outcome.stdout == f"{program.folder / 'results-2.parquet'}\n"
    assert (program.folder / "results.parquet").read_text() == "mine"
    assert open_log(program.folder / "results-2.parquet").rows() and len(ours(outcome)) == 1


def test_an_earlier_log_is_replaced_without_a_word(program: Runner) -> None:
    for _ in range(2):
        outcome = run(program, "")
    assert ours(outcome) == []
    assert sorted(os.listdir(program.folder)) == ["data", "program.py", "results.parquet"]


def test_links_of_the_names_that_were_guessed(program: Runner) -> None:
    # GIVEN a program that makes links of the names under which the log was written, were its packer's pid one of these
    text = """
victim = os.path.abspath("victim")
open(victim, "w").write("mine")
for pid in range(os.getpid(), os.getpid() + 400):
    for name in (f".results.parquet.{pid}.tmp", f"results.parquet.{pid}.tmp"): os.symlink(victim, name)
"""
    # WHEN it ends THEN nothing was written through one of them
    run(program, text)
    assert (program.folder / "victim").read_text() == "mine" and opens(program.folder / "results.parquet") == 1
    assert sum(path.is_symlink() for path in program.folder.iterdir()) == 800


#: What has the name of the live log when its run ends, which is not that log.
REPLACED = {
    "a log of another run": "os.rename('old.pyio', live)",
    "a copy of it": "shutil.copy(live, 'copy'); os.rename('copy', live)",
    "a link to it": "os.rename(live, 'moved'); os.symlink('moved', live)",
    "a FIFO": "os.unlink(live); os.mkfifo(live)",
    "a folder": "os.unlink(live); os.mkdir(live)",
    "results": "os.unlink(live); open(live, 'w').write('mine')",
    "another user's log": "os.chown('old.pyio', 65534, 65534); os.rename('old.pyio', live)",
    "nothing": "os.unlink(live)",
}


@pytest.mark.parametrize("what", [pytest.param(what, marks=root_only) if "user" in what else what for what in REPLACED])
def test_the_live_log_is_replaced(program: Runner, what: str) -> None:
    # GIVEN a program during whose run something else gets its log's name
    LogWriter().save(program.folder / "old.pyio")
    text = f"live = 'results.pyio'\n{REPLACED[what]}\nprint(os.path.lexists(live) and os.lstat(live).st_ino)"
    # the copy is as long as the log may become
    outcome = run(program, text, PYIO_TRACE_MAX_LOG_SIZE="1M")
    # WHEN it ends THEN the log is said to be lost; nothing is summarised, packed or removed
    (line,) = outcome.stderr.splitlines()
    assert line.startswith("pyio-trace: lost: ") and line.endswith(" [log-lost]"), line
    live = program.folder / "results.pyio"
    assert outcome.stdout == f"{os.path.lexists(live) and os.lstat(live).st_ino}\n"
    assert not list(program.folder.glob("*.parquet"))


@pytest.mark.parametrize("what", ["a log of another run", "nothing"])
def test_the_live_log_of_a_stretch_is_replaced(program: Runner, what: str) -> None:
    LogWriter().save(program.folder / "old.pyio")
    text = f"""\
import os, pyio_trace
from pyio_trace import PyioTraceError
live = "results.pyio"
run = pyio_trace.trace("results.parquet").start()
{REPLACED[what]}
try: run.stop()
except PyioTraceError as error: print(error.slug)
"""
    assert succeeded(program.bare(text)).stdout == "log-lost\n"
    assert (program.folder / "results.pyio").exists() == (what != "nothing")
    assert not list(program.folder.glob("*.parquet"))


def test_the_log_that_is_not_packed_is_replaced(program: Runner) -> None:
    LogWriter().save(program.folder / "old.pyio")
    outcome = run(program, "os.rename('old.pyio', 'run.pyio')", log="run.pyio")
    assert outcome.stderr.count("\n") == 1 and "is not this run's any more" in outcome.stderr


def test_the_folder_is_renamed_and_another_has_its_name(program: Runner) -> None:
    # GIVEN a program whose folder of logs becomes a link to a folder with a log and results of the same names
    for name in ("logs", "victim"):
        (program.folder / name).mkdir()
    LogWriter().save(program.folder / "victim" / "results.pyio")
    (program.folder / "victim" / "results.parquet").write_text("mine")
    outcome = run(program, "os.rename('logs', 'moved'); os.symlink('victim', 'logs')", log="logs/results.parquet")
    # WHEN it ends THEN nothing happened there, and the live log is where it went
    assert outcome.stderr.count("\n") == 1 and "is not this run's any more" in outcome.stderr
    assert sorted(os.listdir(program.folder / "victim")) == ["results.parquet", "results.pyio"]
    assert (program.folder / "victim" / "results.parquet").read_text() == "mine"
    assert os.listdir(program.folder / "moved") == ["results.pyio"]


def test_the_folder_is_renamed_and_can_still_be_found(program: Runner) -> None:
    (program.folder / "logs").mkdir()
    run(program, "os.rename('logs', 'moved'); os.symlink('moved', 'logs')", log="logs/results.parquet")
    assert os.listdir(program.folder / "moved") == ["results.parquet"]


@pytest.mark.parametrize("mask", ["0", "0o777"])
@pytest.mark.parametrize("mode, wanted", [(None, 0o600), ("640", 0o640), ("0644", 0o644)])
def test_who_may_read_it(program: Runner, mode: str | None, wanted: int, mask: str) -> None:
    run(program, f"os.umask({mask})", PYIO_TRACE_LOG_MODE=mode)
    assert (program.folder / "results.parquet").stat().st_mode & 0o7777 == wanted


def test_who_may_read_the_log_of_a_stretch(program: Runner) -> None:
    text = """
    import os, pyio_trace
    os.umask(0)
    with pyio_trace.trace("a.parquet"): pass
    with pyio_trace.trace("b.parquet", log_mode=0o640): pass
    print([oct(os.stat(name).st_mode & 0o777) for name in ("a.parquet", "b.parquet")])
    """
    assert succeeded(program.bare(text)).stdout == "['0o600', '0o640']\n"


def test_the_pack_command_leaves_what_is_not_a_log(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    # GIVEN a log, and an output name that is a symbolic link to another log
    log = LogWriter().save(tmp_path / "run.pyio")
    LogWriter().save(tmp_path / "other.pyio")
    (tmp_path / "out.parquet").symlink_to("other.pyio")
    # WHEN the log is to be packed there THEN one line says that it is not, and how it is
    assert main(["pack", str(log), str(tmp_path / "out.parquet"), "--remove"]) == 2
    assert capfd.readouterr().err.endswith("[log-exists]\n")
    assert (tmp_path / "out.parquet").is_symlink() and log.exists()
    assert main(["pack", str(log), str(tmp_path / "new.parquet"), "--remove"]) == 0
    assert not log.exists() and (tmp_path / "new.parquet").stat().st_mode & 0o777 == 0o600
