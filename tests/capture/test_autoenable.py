"""PYIO_TRACE starts tracing in every Python that should be traced, and in no other."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import pyio_trace
from tests.support.programs import TIMEOUT, Runner, clean_environment, succeeded

READ = "import os, sys\nos.read(os.open(sys.argv[1], os.O_RDONLY), 100)\n"
OURS = "import sys\nprint(sorted(name for name in sys.modules if 'pyio' in name))\n"


@pytest.mark.parametrize("value", ["1", "true", "on", "YES"])
def test_variable_alone(program: Runner, data: Path, value: str) -> None:
    # GIVEN a program WHEN it is run with PYIO_TRACE alone THEN it is traced, into a log of the default name
    found = succeeded(program.command([sys.executable, program.write(READ), data], {"PYIO_TRACE": value}))
    (log,) = [*program.folder.glob("pyio-program-*.parquet"), *program.folder.glob("pyio-program-*.pyio")]
    found.path = log
    assert [row["bytes_moved"] for row in found.select(op="read", path=data)] == [100]
    assert found.stdout == ""


@pytest.mark.parametrize("value", [None, "", "0", "no", "off", "false"])
def test_variable_unset_or_off(program: Runner, value: str | None) -> None:
    # GIVEN the installed package WHEN PYIO_TRACE is unset or off
    outcome = succeeded(program.command([sys.executable, program.write(OURS)], {"PYIO_TRACE": value}))
    # THEN there is no log; where the variable is unset, only the module that looks for it is imported (3.15)
    names = ["program.py"]
    assert [path.name for path in program.folder.iterdir()] == names
    assert outcome.stderr == ""
    if not value:
        assert outcome.stdout.strip() == ("['_pyio_trace_start']" if sys.version_info >= (3, 15) else "[]")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"PYIO_TRACE_EXCLUDE": "op:read,op:s*,*.h5,process:other", "PYIO_TRACE_INCLUDE": "layer:posix,proc"},
        {"PYIO_TRACE_MODE": "profile", "PYIO_TRACE_MIN_SIZE": "4K", "PYIO_TRACE_MIN_DURATION": "1us"},
        {"PYIO_TRACE_MODE": "ring", "PYIO_TRACE_FOLLOW": "all", "PYIO_TRACE_INSTRUMENTS": "h5py,numpy"},
    ],
    ids=["none", "rules", "sums", "ring"],
)
def test_no_reading_module_and_no_heavy_one(program: Runner, options: dict[str, str]) -> None:
    # GIVEN a program that lists its modules WHEN it is run bare and traced, with any options
    text = "import sys\nprint(*sorted(sys.modules))\n"
    bare = set(succeeded(program.bare(text)).stdout.split())
    traced = set(succeeded(program.traced(text, env=options)).stdout.split())
    # THEN tracing imported neither heavy modules nor the reader, nor any module whose import order programs rely on
    added = traced - bare
    heavy = "numpy pyarrow rich inspect re enum fnmatch functools typing dataclasses threading mmap tomllib"
    assert added & set(heavy.split()) == set()
    reader = [["pyio_trace", package] for package in ("log", "join", "analysis", "report")]
    assert not [name for name in added if name.split(".")[:2] in reader]


def test_bad_value_is_one_line_and_an_untraced_program(program: Runner) -> None:
    # GIVEN a value that is neither on nor off, a wrong option, a log that cannot be
    script = program.write("print('ran')")
    for extra in (
        {"PYIO_TRACE": "perhaps"},
        {"PYIO_TRACE": "1", "PYIO_TRACE_STACKS": "some"},
        {"PYIO_TRACE": "1", "PYIO_TRACE_OUTPT": "x.pyio"},
        {"PYIO_TRACE": "1", "PYIO_TRACE_OUTPUT": "/proc/nonexistent/run.pyio"},
        {"PYIO_TRACE": "1", "PYIO_TRACE_OUTPUT": "/proc/run.pyio"},
    ):
        # WHEN the program is run THEN it runs, and one line says why it is not traced
        outcome = program.command([sys.executable, script], extra)
        assert (outcome.status, outcome.stdout) == (0, "ran\n")
        (line,) = outcome.stderr.splitlines()
        assert line.startswith("pyio-trace: not tracing: ")


def test_user_sitecustomize_still_runs(program: Runner, data: Path) -> None:
    # GIVEN a sitecustomize of the user's on PYTHONPATH
    mine = program.folder / "mine"
    mine.mkdir()
    (mine / "sitecustomize.py").write_text("import builtins\nbuiltins.MINE = __file__\n")
    text = READ + "print(MINE)\n"
    # WHEN a program is run traced THEN it has run, and the program is traced
    outcome = succeeded(program.traced(text, data, env={"PYTHONPATH": str(mine)}))
    assert outcome.stdout.strip() == str(mine / "sitecustomize.py")
    assert len(outcome.select(op="read", path=data)) == 1


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """The installed package, copied to a folder that is no site directory."""
    where = "import pyio_trace, os; print(os.path.dirname(pyio_trace.__file__))"
    words = [sys.executable, "-c", where]
    told = subprocess.run(words, cwd="/", env=clean_environment(), capture_output=True, text=True)
    shutil.copytree(told.stdout.strip(), tmp_path / "apart" / "pyio_trace")
    return tmp_path / "apart"


def without_site_packages(tmp_path: Path) -> Path:
    """An interpreter of an empty virtual environment, which finds no package of this one."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "empty"], check=True)
    return tmp_path / "empty" / "bin" / "python"


@pytest.mark.slow
def test_package_outside_site_directories_uses_the_shim(
    program: Runner, elsewhere: Path, data: Path, tmp_path: Path
) -> None:
    # GIVEN the package in a folder of PYTHONPATH, next to a sitecustomize of the user's
    python = without_site_packages(tmp_path)
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "sitecustomize.py").write_text("import builtins\nbuiltins.MINE = 'mine'\n")
    child = program.write(READ + "print(MINE)\n", "child.py")
    text = f"""\
    import os, subprocess, sys
    fd = os.open(sys.argv[1], os.O_RDONLY)
    os.read(fd, 77)
    subprocess.run([sys.executable, {str(child)!r}, sys.argv[1]], check=True)
    print(MINE, [entry for entry in sys.path if "shim" in entry])
    """
    # WHEN a program is launched from there
    env = {"PYTHONPATH": f"{elsewhere}:{mine}"}
    script = program.write(text)
    words = [python, "-m", "pyio_trace", "-q", "-o", "run.pyio", script, data]
    outcome = succeeded(program.command(words, env))
    # THEN it and its child are traced, and the user's sitecustomize ran in both
    assert outcome.stdout.split("\n")[:2] == ["mine", "mine []"]
    assert {row["bytes_requested"] for row in outcome.select(op="read", path=data)} == {77, 100}
    assert len({row["pid"] for row in outcome.select(op="read", path=data)}) == 2


def test_site_turns_tracing_on_for_everyone(program: Runner, data: Path) -> None:
    # GIVEN a site whose own sitecustomize imports pyio_trace.auto
    site = program.folder / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text("import pyio_trace.auto\n")
    script = program.write(READ)
    env = {"PYTHONPATH": str(site), "PYIO_TRACE_OUTPUT": "run.pyio", "PYIO_TRACE_QUIET": "1"}
    # WHEN a user runs a program THEN it is traced
    outcome = succeeded(program.command([sys.executable, script, data], env))
    assert len(outcome.select(op="read", path=data)) == 1
    # WHEN the user says no THEN it is not
    outcome.path.unlink()
    succeeded(program.command([sys.executable, script, data], {**env, "PYIO_TRACE": "0"}))
    assert not outcome.path.exists()
    # WHEN it runs under a traced program as well THEN it is traced once, into that run
    parent = "import subprocess, sys\nsubprocess.run([sys.executable, *sys.argv[1:]], check=True)\n"
    outcome = succeeded(program.traced(parent, script, data, name="parent.py", env=env))
    assert len(outcome.select(op="read", path=data)) == 1
    assert [path.name for path in program.folder.glob("*.pyio")] == ["run.pyio"]


def test_a_flag_that_keeps_us_out(program: Runner, data: Path) -> None:
    # GIVEN the interpreter flag that hides the site directories
    outcome = program.traced(READ + "print('ran')", data, flags=["-S"])
    # WHEN a program is run with it THEN it runs, untraced (docs/explanation/limits.md); -E and -I: test_privilege.py
    assert (outcome.status, outcome.stdout, outcome.stderr) == (0, "ran\n", "")
    assert not outcome.path.exists()


@pytest.mark.parametrize("flags", [["-E"], ["-I"], ["-O"], ["-X", "dev"], ["-W", "ignore"], ["-u"]])
def test_launch_keeps_the_interpreters_flags(program: Runner, data: Path, flags: list[str]) -> None:
    # GIVEN a launch by an interpreter with flags
    text = READ + "print(sys.flags, sys.argv[1:], __name__)\n"
    script = program.write(text)
    words = [sys.executable, *flags, "-m", "pyio_trace", "-q", "-o", "run.pyio", script, data]
    # WHEN it is run THEN the program has those flags, and is traced
    outcome = succeeded(program.command(words))
    bare = succeeded(program.command([sys.executable, *flags, script, data]))
    assert outcome.stdout == bare.stdout
    assert len(outcome.select(op="read", path=data)) == 1


def test_launch_of_a_module_and_of_code(program: Runner, data: Path) -> None:
    # GIVEN a module and a line of code
    program.write(READ + "print(__name__, sys.argv[0], __spec__.name)\n", "module.py")
    us = [sys.executable, "-m", "pyio_trace", "-q", "-o", "run.pyio"]
    # WHEN they are launched THEN they run as they do under Python, and are traced
    for words in (["-m", "module", data], ["-c", READ + "print(__name__, sys.argv)\n", data]):
        outcome = succeeded(program.command([*us, *words]))
        assert outcome.stdout == succeeded(program.command([sys.executable, *words])).stdout
        assert len(outcome.select(op="read", path=data)) == 1


def test_launch_begins_before_its_interpreter_looks_for_modules(program: Runner) -> None:
    # GIVEN an interpreter that tells what it imports, and the one that it becomes
    words = [sys.executable, "-X", "importtime", "-m", "pyio_trace", "-q", "-o", "run.pyio", "-c", "pass"]
    # WHEN it launches a program THEN neither has imported what -m needs, which takes milliseconds
    outcome = succeeded(program.command(words))
    assert "pyio_trace.capture.startup.command_line" in outcome.stderr
    assert "runpy" not in outcome.stderr
    assert outcome.path.exists()


def test_words_of_a_program_are_no_launch(program: Runner) -> None:
    # GIVEN programs whose names or arguments look like a launch WHEN they are run THEN they run, untraced
    text = "import sys\nprint(sys.argv[1:])\n"
    for words in ([program.write(text), "-m", "pyio_trace", "-c", "1"], ["-c", text, "-m", "pyio_trace", "-c", "1"]):
        outcome = succeeded(program.command([sys.executable, *words]))
        assert (outcome.stdout, outcome.stderr) == ("['-m', 'pyio_trace', '-c', '1']\n", "")
    program.write(text, "-m")
    outcome = succeeded(program.command([sys.executable, "--", "-m", "pyio_trace", "-c", "1"]))
    assert outcome.stdout == "['pyio_trace', '-c', '1']\n"
    assert not [*program.folder.glob("*.pyio"), *program.folder.glob("*.parquet")]


def test_a_module_of_our_name_in_the_current_folder_comes_first(program: Runner) -> None:
    # GIVEN such a module WHEN -m names it THEN that is what runs
    program.write("print('mine')\n", "pyio_trace.py")
    outcome = succeeded(program.command([sys.executable, "-m", "pyio_trace", "-c", "print('ran')"]))
    assert (outcome.stdout, outcome.stderr) == ("mine\n", "")


def test_what_is_wrong_with_a_launch_is_said_once(program: Runner) -> None:
    # GIVEN launches that cannot be, and commands WHEN they are run THEN each is one line and status 2, or the command
    us = [sys.executable, "-m", "pyio_trace"]
    nowhere = "/proc/nonexistent/x.pyio"
    for words in (["--nope", "x.py"], ["nope.py"], ["-o", nowhere, "-c", "1"], ["-m", "nope"], ["-o"]):
        outcome = program.command([*us, *words], {"PYIO_TRACE": "1"})
        assert (outcome.status, outcome.stdout) == (2, "")
        (line,) = outcome.stderr.splitlines()
        assert line.startswith("pyio-trace: ")
    assert succeeded(program.command([*us, "--version"])).stdout.startswith("pyio_trace ")
    assert succeeded(program.command([*us, "summary", "--help"])).stdout.startswith("usage: pyio-trace summary")
    assert succeeded(program.command([*us, "run", "-q", "-c", "print('ran')"])).stdout == "ran\n"
    assert succeeded(program.command([*us, "run", "--help"])).stdout.count("usage: pyio-trace run") == 1


def test_a_launch_that_is_interrupted_says_nothing(tmp_path: Path) -> None:
    # GIVEN a launch that waits: what reads its settings is a module that sleeps
    (tmp_path / "pyproject.toml").write_text("[tool.pyio_trace]\nmode = 'trace'\n")
    (tmp_path / "tomllib.py").write_text("import time\nopen('waits', 'w').close()\ntime.sleep(60)\n")
    os.mkfifo(tmp_path / "waits")
    launch = subprocess.Popen(
        [sys.executable, "-m", "pyio_trace", "-o", "run.pyio", "-c", "print('ran')"], cwd=tmp_path,
        env=clean_environment(PYTHONPATH=str(tmp_path)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    open(tmp_path / "waits", "rb").close()
    # WHEN Ctrl-C is pressed THEN it ends, without a word
    launch.send_signal(signal.SIGINT)
    said, _ = launch.communicate(timeout=TIMEOUT)
    assert (launch.returncode, said) == (130, b"")


@pytest.mark.parametrize("closed", [1, 2])
def test_launch_without_a_stream(program: Runner, data: Path, closed: int) -> None:
    # GIVEN a shell that closes standard output, or error WHEN a program is launched THEN it runs, traced
    words = [sys.executable, "-m", "pyio_trace", "-q", "-o", "run.pyio", program.write(READ), data]
    outcome = succeeded(program.command(["sh", "-c", f'exec "$@" {closed}>&-', "sh", *words]))
    assert len(outcome.select(op="read", path=data)) == 1


def test_follow_none(program: Runner, data: Path) -> None:
    # GIVEN a program that forks, and that starts another Python
    text = f"""\
    import os, subprocess, sys
    fd = os.open(sys.argv[1], os.O_RDONLY)
    os.pread(fd, 10, 0)
    subprocess.run([sys.executable, {str(program.write(READ, "child.py"))!r}, sys.argv[1]], check=True)
    """
    # WHEN it is run with --follow=none THEN only its own operations are there
    outcome = succeeded(program.traced(text, data, env={"PYIO_TRACE_FOLLOW": "none"}))
    (row,) = outcome.select(op=("read", "pread"), path=data)
    assert (row["op"], row["pid"]) == ("pread", outcome.pid)


@pytest.mark.parametrize(
    ("script", "itself", "child"),
    [
        ("ray/_private/workers/default_worker.py", True, True),
        ("ray/_private/workers/setup_worker.py", False, True),
        ("ray/_private/log_monitor.py", False, False),
        ("ray/dashboard/agent.py", False, False),
        ("dashboard/agent.py", True, True),
    ],
)
def test_services_of_frameworks_are_left_alone(program: Runner, script: str, itself: bool, child: bool) -> None:
    # GIVEN a script of that path, which opens a file and runs a child that opens another
    (program.folder / script).parent.mkdir(parents=True)
    text = """
    import subprocess, sys
    open("mine", "w").close()
    subprocess.run([sys.executable, "-c", "open('childs', 'w').close()"], check=True)
    """
    succeeded(program.traced(text, name=script, log="%p.pyio"))
    # THEN a service and what it starts are in no log; what only starts others is not, but they are
    logs = [pyio_trace.open(log) for log in program.folder.glob("*.pyio")]
    seen = {path for log in logs for path in log.operations()["path"].to_pylist()}
    assert (str(program.folder / "mine") in seen, str(program.folder / "childs") in seen) == (itself, child)
