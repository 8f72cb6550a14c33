"""The processes of --jobs: what they import, and what Ctrl-C does to them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from pyio_trace.join.pack.packer import pack
from tests.support.smallrun import small_run
from tests.support.waiting import wait_until

pytestmark = pytest.mark.once
ROOT = Path(__file__).parents[2]


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    """A command line with --jobs, as the script pyio-trace runs it: with the script's folder first on the path."""
    script = tmp_path / "bin" / "pyio-trace"
    script.parent.mkdir()
    script.write_text("import sys\nfrom pyio_trace.cli.main import main\nif __name__ == '__main__': sys.exit(main())\n")
    pack(small_run(tmp_path / "log.pyio"), tmp_path / "log.parquet")
    return [sys.executable, str(script), "view", "by_line", str(tmp_path / "log.parquet"), "--jobs", "2"]


def test_nothing_is_imported_from_the_current_folder(command: list[str], tmp_path: Path) -> None:
    # GIVEN a current folder with modules that are called as those of the standard library and of others
    hostile = tmp_path / "clone"
    hostile.mkdir()
    for name in ("random", "struct", "multiprocessing", "numpy", "pyarrow", "pyio_trace", "sitecustomize", "tempfile"):
        (hostile / f"{name}.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'a').write({name!r})\n")
    # WHEN a log is read in several processes
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=hostile, env=environment, capture_output=True, text=True, check=False)
    # THEN none of them is imported
    assert not (tmp_path / "imported").exists()
    assert (done.returncode, done.stderr) == (0, "") and "train.py:10" in done.stdout


def test_a_current_folder_that_is_gone(command: list[str], tmp_path: Path) -> None:
    # GIVEN a current folder that somebody has removed WHEN a log is read in several processes THEN one line says so
    script = f'mkdir {tmp_path}/gone && cd {tmp_path}/gone && rmdir {tmp_path}/gone && exec "$@"'
    done = subprocess.run(
        ["sh", "-c", script, "sh", *command], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    said = (
        "pyio-trace: --jobs: the current folder is gone, or you may not enter it; go to another one [no-such-folder]\n"
    )
    assert (done.returncode, done.stderr) == (2, said)


def test_too_few_files(command: list[str]) -> None:
    # GIVEN a limit that leaves no room for pipes to other processes WHEN a log is read THEN one line says so
    done = subprocess.run(
        ["sh", "-c", 'ulimit -n 8; exec "$@"', "sh", *command], env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "[system-limit]" in done.stderr


@pytest.mark.parametrize("again", range(4))
def test_ctrl_c_is_for_the_command_alone(command: list[str], again: int) -> None:
    # GIVEN a command that has started another process
    running = subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        text=True, start_new_session=True,
    )  # fmt: skip
    children = Path(f"/proc/{running.pid}/task/{running.pid}/children")
    try:
        wait_until(lambda: len(children.read_text().split()) > again % 2, "processes of the command")
        # WHEN Ctrl-C comes, to all processes of the terminal
        os.killpg(running.pid, signal.SIGINT)
        _, said = running.communicate(timeout=240)
    finally:
        running.kill()
    # THEN it ends without a word, and without leaving a process behind
    assert (running.returncode, said) == (130, "")
    wait_until(lambda: not _alive(running.pid), "the end of its processes")


def _alive(group: int) -> bool:
    """Whether a process of a group has not ended."""
    for place in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, own = place.read_text().rpartition(")")[2].split()[:3]
            if int(own) == group and state != "Z":
                return True
    return False
