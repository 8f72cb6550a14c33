"""What a log never replaces: a device, a pipe, a link of the system's, or the log that a command reads."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from pyio_trace.cli.main import main
from pyio_trace.errors import ConfigError
from pyio_trace.existing_files import check_replaceable
from pyio_trace.join.pack.packer import pack
from pyio_trace.output import log_paths
from tests.support.logwriter import LogWriter
from tests.support.programs import Runner, succeeded


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


def test_a_launch_into_a_pipe_is_refused(pipe: Path, program: Runner) -> None:
    # GIVEN a pipe that nobody reads, WHEN a launch is to write its log there
    words = [sys.executable, "-m", "pyio_trace", "-o", pipe, "-c", "print('ran')"]
    outcome = program.command(words)
    # THEN it neither waits nor runs anything, and the pipe stays
    assert (outcome.status, outcome.stdout) == (2, ""), outcome
    assert outcome.stderr.count("\n") == 1 and outcome.stderr.endswith("[not-a-file]\n")
    assert stat.S_ISFIFO(pipe.lstat().st_mode) and [path.name for path in program.folder.iterdir()] == ["pipe"]


def test_auto_enable_into_a_pipe_is_an_untraced_program(pipe: Path, program: Runner) -> None:
    outcome = succeeded(program.traced("print('ran')", log="pipe"))
    assert outcome.stdout == "ran\n" and outcome.stderr.count("\n") == 1 and "not tracing: " in outcome.stderr
    assert stat.S_ISFIFO(pipe.lstat().st_mode)


def test_the_name_of_a_device_is_refused() -> None:
    """Nothing here would write, should it not be."""
    for name in ("/dev/null", "/dev/stdout", "/dev/tty", "/proc/self/fd/1"):
        if os.path.exists(name) and (os.path.islink(name) or not os.path.isfile(name)):  # no stand-in of a container's
            with pytest.raises(ConfigError) as problem:
                check_replaceable(name)
            assert problem.value.slug == "not-a-file" and "\n" not in str(problem.value)


def test_a_packed_log_beside_a_pipe_is_refused(pipe: Path) -> None:
    pipe.rename(pipe.with_suffix(".pyio"))  # where the live log would stand meanwhile
    with pytest.raises(ConfigError) as problem:
        log_paths(str(pipe.with_suffix(".parquet")), "x.py")
    assert problem.value.slug == "not-a-file"


def test_the_core_replaces_files_only(program: Runner) -> None:
    # GIVEN a pipe, a folder, a link to each, and links to a log and to nothing
    # WHEN the core is asked to make a log of that name
    outcome = succeeded(program.bare("""
        import os
        from pyio_trace.capture.runtime import tracer
        from pyio_trace.config import Config
        from pyio_trace.errors import PyioTraceError
        os.mkfifo("pipe")
        os.mkdir("folder")
        open("old.pyio", "w").close()
        for name, to in [("to_pipe", "pipe"), ("to_folder", "folder"), ("to_log", "old.pyio"), ("to_nothing", "none")]:
            os.symlink(to, name)
        here = os.getcwd()
        for name in ("pipe", "folder", "to_pipe", "to_folder", "old.pyio", "to_log", "to_nothing"):
            before = os.lstat(name).st_ino
            try:
                tracer.start(Config(), os.path.join(here, name), None, create=True)
            except PyioTraceError:
                print(name, "refused", os.lstat(name).st_ino == before)
            else:
                tracer.stop()
                print(name, "written", os.path.isfile(name) and not os.path.islink(name))
    """))  # fmt: skip
    refused = [f"{name} refused True" for name in ("pipe", "folder", "to_pipe", "to_folder")]
    written = [f"{name} written True" for name in ("old.pyio", "to_log", "to_nothing")]
    assert outcome.stdout.splitlines() == refused + written


@pytest.mark.parametrize("command", ["summary", "events", "files", "stacks", "counters", "pack"])
@pytest.mark.parametrize("kind", ["live", "packed", "link", "folder"])
def test_no_command_writes_over_what_it_reads(
    command: str, kind: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    # GIVEN a log
    folder = tmp_path / "logs"
    folder.mkdir()
    log = LogWriter().save(folder / "run.pyio")
    if kind == "packed":
        pack(log, folder / "run.parquet")
        log = folder / "run.parquet"
    read, output = log, log
    if kind == "link":
        output = tmp_path / "link.parquet"
        output.symlink_to(log)
    if kind == "folder":
        read = folder
    before = log.read_bytes()
    # WHEN a command is to write to it under whatever name
    words = [command, str(read), *(["--output"] if command != "pack" else []), str(output)]
    status = main(words)
    # THEN it says so, and the log is what it was
    out, err = capfd.readouterr()
    assert (status, out) == (2, "") and err.count("\n") == 1 and err.endswith("[contradictory-options]\n")
    assert log.read_bytes() == before


def test_a_table_can_be_written_to_a_pipe_or_to_a_device(tmp_path: Path) -> None:
    if not os.path.exists("/dev/stdout"):
        pytest.skip("a /dev without the names of descriptors")
    log = LogWriter().save(tmp_path / "run.pyio")
    words = [sys.executable, "-m", "pyio_trace", "files", str(log), "--format", "csv", "--output", "/dev/stdout"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith('"path"') and done.stderr == "", done
