"""Privileged processes ignore the environment; processes started with -E or -I take their options from the log alone.

Ground truth is what a program did or wrote: a file, a line, a byte on a pipe.
"""

from __future__ import annotations

import os
import signal
import stat
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

import pyio_trace
from pyio_trace.log import layout
from tests.support.programs import TIMEOUT, Outcome, Runner, clean_environment, succeeded
from tests.support.surroundings import let_everybody_enter

CSRC = Path(__file__).parent.parent / "csrc"
NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="making a set-user-ID program of another user's takes root")

#: json: what a forged PYIO_TRACE_FOUND goes by.
TEXT = "import json, os\nopen('/dev/null').close()\nprint('ran', os.getpid())\n"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder that everybody may enter, and only this user may write to."""
    let_everybody_enter(tmp_path)
    folder = tmp_path / "place"
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def setuid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """tests/csrc/setuid.c, root's, for everybody."""
    folder = tmp_path_factory.mktemp("setuid")
    let_everybody_enter(folder)
    if os.statvfs(folder).f_flag & os.ST_NOSUID:
        pytest.skip(f"{folder} is mounted nosuid")
    made = folder / "setuid"
    subprocess.run(["cc", "-o", made, CSRC / "setuid.c"], check=True)
    made.chmod(0o4755)
    return made


@dataclass
class Ended:
    """How a program ended."""

    status: int
    stdout: str
    stderr: str

    @property
    def pid(self) -> int:
        return int(self.stdout.split("ran ")[1].split()[0])


def run(
    words: Sequence[object],
    env: Mapping[str, str],
    cwd: Path,
    *,
    user: int | None = None,
    before: Callable[[], object] | None = None,
    pass_fds: Sequence[int] = (),
) -> Ended:
    """Run it, as another user perhaps."""
    other = {} if user is None else {"user": user, "group": user, "extra_groups": []}
    done = subprocess.run(
        [str(word) for word in words], env=clean_environment(**env), cwd=cwd, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=TIMEOUT, preexec_fn=before, pass_fds=pass_fds, **other,  # type: ignore[call-overload]
    )  # fmt: skip
    return Ended(done.returncode, done.stdout, done.stderr)


def killed_log(path: Path) -> Path:
    """A live log whose run was killed: whole, and nobody is in it."""
    us = [sys.executable, "-m", "pyio_trace", "-q", "--max-log-size", "1M", "-o", path]
    words = [*us, "-c", "import os; os.kill(os.getpid(), 9)"]
    done = subprocess.run(words, env=clean_environment(), cwd=path.parent, timeout=TIMEOUT)
    assert done.returncode == -signal.SIGKILL
    path.chmod(0o600)
    return path


def becomes_its_owner(log: Path, at: int | None = None) -> Callable[[], None]:
    """In the program to be: the log says that this very process has begun the run.  at: when that process started."""

    def forge() -> None:
        started = at or int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        with open(log, "r+b", buffering=0) as file:
            for field, value in (("owner_pid", os.getpid()), ("owner_start", started)):
                kind, place, *_ = layout.HEADER.fields[field]  # type: ignore[index]
                file.seek(place)
                file.write(value.to_bytes(kind.itemsize, "little"))

    return forge


def told_by_the_installed(expression: str) -> str:
    """What an expression is in the installed package, which is not the one that is imported here."""
    modules = "from pyio_trace.capture.runtime import ld_preload; from pyio_trace.capture.startup import reexec"
    code = f"{modules}; print({expression})"
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, cwd="/", env=clean_environment(), capture_output=True, text=True, check=True)
    return done.stdout.strip()


def core_library() -> Path:
    return Path(told_by_the_installed("ld_preload.library()"))


def pids_in(log: Path) -> set[int]:
    return set(pyio_trace.open(log).processes()["pid"].to_pylist())


# ---- the table ---------------------------------------------------------------------------------

#: Way to start -> what it obeys; all others of SAID it does not.
OBEYED: dict[str, set[str]] = {
    "plain": {"FOUND", "FINAL", "HOLD", "OUTPUT", "LOG", "pyproject"},
    "-E": {"LOG"},
    "-I": {"LOG"},
    "-S": set(),
    "set-uid": set(),
    "set-uid -I": set(),
    "setresuid": {"LOG"},  # the same, then -I, by a set-user-ID program that has become root altogether
    "preloaded": {"LOG"},
}
SAID = ("FOUND", "FINAL", "HOLD", "OUTPUT", "LOG", "pyproject")


def words_of(way: str, setuid: Path | None) -> list[object]:
    """The command that runs program.py, or, preloaded, a program that is not Python."""
    if way == "preloaded":
        return ["/bin/sh", "-c", 'cat /dev/null; echo "ran $$"']
    flags = {"plain": [], "set-uid": [], "set-uid -I": ["-I"], "setresuid": ["-I"]}.get(way, [way])
    wrapped = {"set-uid": [setuid], "set-uid -I": [setuid], "setresuid": [setuid, "-r"]}.get(way, [])
    return [*wrapped, sys.executable, *flags, "program.py"]


@pytest.mark.parametrize("said", SAID)
@pytest.mark.parametrize("way", OBEYED)
def test_what_is_obeyed(way: str, said: str, place: Path, request: pytest.FixtureRequest) -> None:
    # GIVEN a program that is started in some way, in a folder of its user's
    starts_as_another = way.startswith("set")
    if starts_as_another and os.geteuid() != 0:
        pytest.skip("making a set-user-ID program of another user's takes root")
    setuid = request.getfixturevalue("setuid") if starts_as_another else None
    (place / "program.py").write_text(TEXT)
    log = killed_log(place / "log.pyio")
    env = {"PYIO_TRACE": "1", "PYIO_TRACE_QUIET": "1"}
    before, descriptors = None, []
    told, told_write = os.pipe()
    wait, wait_write = os.pipe()
    os.close(wait_write)  # what is held does not wait
    if way == "preloaded":
        env |= {"LD_PRELOAD": str(core_library()), "PYIO_TRACE_FOLLOW": "all", "PYIO_TRACE_LOG": str(log)}
    # WHEN its environment, or its folder, says something
    if said == "FOUND":
        env["PYIO_TRACE_FOUND"] = "json=this"  # a module that prints, and is no instrument
    elif said == "OUTPUT":
        env["PYIO_TRACE_OUTPUT"] = str(place / "there.pyio")
    elif said == "pyproject":
        (place / "pyproject.toml").write_text('[tool.pyio_trace]\noutput = "there.pyio"\n')
    elif said == "HOLD":
        env["PYIO_TRACE_DOCTOR"] = f"{told_write},{wait}"
        descriptors = [told_write, wait]
    else:
        env["PYIO_TRACE_LOG"] = str(log)
    if said == "FINAL":
        env["PYIO_TRACE_FINAL"] = str(place / "there.parquet")
        before = becomes_its_owner(log)
        if starts_as_another:
            os.chown(log, NOBODY, NOBODY)
    there = set(place.iterdir())
    user = NOBODY if starts_as_another else None
    ended = run(words_of(way, setuid), env, place, user=user, before=before, pass_fds=descriptors)
    os.close(told_write)
    os.close(wait)
    with open(told, "rb") as pipe:
        said_to_doctor = pipe.read()
    # THEN it runs, and obeys or ignores its options
    assert ended.status == 0, ended
    made = {path.name for path in set(place.iterdir()) - there}
    did = {
        "FOUND": "The Zen of Python" in ended.stdout,
        "HOLD": bool(said_to_doctor),
        "LOG": log.exists() and ended.pid in pids_in(log),  # packed, else
        "FINAL": "there.parquet" in made,
        "OUTPUT": "there.pyio" in made,
        "pyproject": "there.pyio" in made,
    }
    assert did[said] == (said in OBEYED[way]), ended
    # THEN with -E and -I it is traced all the same, as by default; where nothing is obeyed, nothing was done at all
    if not OBEYED[way]:
        assert (made, ended.stderr) == (set(), "")
    elif way in ("-E", "-I", "setresuid") and said not in ("LOG", "FINAL"):
        [own] = [name for name in made if name.startswith("pyio-") and name.endswith(".parquet")]
        assert ended.pid in pids_in(place / own)


# ---- the attacks ---------------------------------------------------------------------------------


@as_root
@pytest.mark.parametrize("becomes", [[], ["-r"]], ids=["set-uid", "setresuid"])
def test_no_sitecustomize_of_the_callers(setuid: Path, place: Path, becomes: list[str]) -> None:
    # GIVEN a set-uid program that runs python -I, and a user's sitecustomize that writes down who runs it
    (place / "admin.py").write_text(TEXT)
    evil = place / "evil"
    evil.mkdir()
    evil.chmod(0o777)
    (evil / "sitecustomize.py").write_text(f"import os\nopen({str(evil / 'ran')!r}, 'a').write(str(os.getresuid()))\n")
    # WHEN that user starts it, and asks for a trace
    env = {"PYIO_TRACE": "1", "PYTHONPATH": str(evil)}
    ended = run([setuid, *becomes, sys.executable, "-I", "admin.py"], env, place, user=NOBODY)
    # THEN none of the caller's code ran: not in the program, nor in the process that packs the log
    assert (ended.status, "ran" in ended.stdout) == (0, True)
    assert not (evil / "ran").exists()
    assert len(list(place.glob("*.parquet"))) == len(becomes)


@as_root
def test_no_library_that_only_the_finisher_would_load(setuid: Path, place: Path) -> None:
    # GIVEN variables of the caller's that libraries look for: OPENSSL_CONF names objects to load
    seen = place / "seen"
    dumps = f"import os; open({str(seen)!r}, 'w').write('\\n'.join(sorted(os.environ)))\n"
    text = f"""\
import sys
from pyio_trace import native
native.core.finish_with([word.encode() for word in [sys.executable, "-I", "-c", {dumps!r}]], False, b"")
"""
    (place / "admin.py").write_text(text)
    # WHEN python -I is traced THEN its finisher does not have them: what language, time and terminal need is there
    env = {"PYIO_TRACE": "1", "OPENSSL_CONF": str(place / "openssl.cnf"), "PYTHONPATH": str(place), "TZ": "UTC"}
    ended = run([setuid, "-r", sys.executable, "-I", "admin.py"], env, place, user=NOBODY)
    assert ended.status == 0, ended
    names = set(seen.read_text().split("\n"))
    assert {"PYIO_TRACE", "TZ"} <= names
    assert not names & {"OPENSSL_CONF", "PYTHONPATH", "HOME", "PATH"}


@as_root
@pytest.mark.parametrize("becomes", [[], ["-r"]], ids=["set-uid", "setresuid"])
def test_no_module_of_the_callers_choice(setuid: Path, place: Path, becomes: list[str]) -> None:
    # GIVEN a module of the standard library that runs what BROWSER names WHEN the caller names it as an instrument
    (place / "admin.py").write_text(TEXT)
    shell = place / "browser"
    shell.write_text(f"#!/bin/sh\nid -u > {place}/ran\n")
    shell.chmod(0o755)
    env = {"PYIO_TRACE": "1", "PYIO_TRACE_FOUND": "json=antigravity", "BROWSER": f"{shell} %s"}
    ended = run([setuid, *becomes, sys.executable, "-I", "admin.py"], env, place, user=NOBODY)
    # THEN the program runs, and nothing else did
    assert (ended.status, "ran" in ended.stdout) == (0, True)
    assert not (place / "ran").exists()


@as_root
def test_no_file_is_replaced_by_a_forged_log(setuid: Path, place: Path) -> None:
    # GIVEN a log of the caller's that says it is the run of the very process that is to be a set-uid program
    (place / "admin.py").write_text(TEXT)
    log = killed_log(place / "log.pyio")
    victim = killed_log(place / "victim.pyio")  # a file that a log may replace
    os.chown(log, NOBODY, NOBODY)
    before = victim.read_bytes()
    # WHEN it is started, and is to put its log in the place of one of root's
    env = {"PYIO_TRACE": "1", "PYIO_TRACE_LOG": str(log), "PYIO_TRACE_FINAL": str(victim)}
    words = [setuid, "-r", sys.executable, "-I", "admin.py"]
    ended = run(words, env, place, user=NOBODY, before=becomes_its_owner(log))
    # THEN that is unchanged, and the process is not in the forged log
    assert ended.status == 0, ended
    assert victim.read_bytes() == before
    assert ended.pid not in pids_in(log)


@pytest.mark.parametrize("flag", ["-B", "-I"])
def test_a_number_that_was_another_process_s(place: Path, flag: str) -> None:
    # GIVEN the log of a run whose owner had the number of the process to be, and was another WHEN that joins it
    (place / "program.py").write_text(TEXT)
    log = killed_log(place / "log.pyio")
    env = {"PYIO_TRACE": "1", "PYIO_TRACE_LOG": str(log), "PYIO_TRACE_FINAL": str(place / "there.parquet")}
    ended = run([sys.executable, flag, "program.py"], env, place, before=becomes_its_owner(log, at=7))
    # THEN it is in it, and does not end the run
    assert (ended.status, ended.stderr) == (0, "")
    assert ended.pid in pids_in(log)
    assert {path.name for path in place.iterdir()} == {"program.py", "log.pyio"}


@pytest.mark.parametrize("which", ["a file", "one number", "three numbers", "a sign", "words", "not open"])
def test_nothing_is_written_to_what_is_no_pair_of_pipes(program: Runner, which: str) -> None:
    # GIVEN a descriptor that the program inherits, and the doctor's variable, which names anything but two pipes
    kept = program.folder / "kept"
    kept.touch()
    read, write = os.pipe()
    with open(kept, "r+b") as file:
        number = file.fileno()
        said = {
            "a file": f"{number},{number}", "one number": f"{write}", "three numbers": f"{write},{read},{read}",
            "a sign": f"{write},-{read}", "words": f"{write},x", "not open": f"{write},99999",
        }[which]  # fmt: skip
        env = {"PYIO_TRACE": "1", "PYIO_TRACE_OUTPUT": "run.pyio", "PYIO_TRACE_QUIET": "1", "PYIO_TRACE_DOCTOR": said}
        program.write(TEXT)
        # WHEN it is run THEN it is traced, and nothing was written there
        ended = run([sys.executable, "program.py"], env, program.folder, pass_fds=[number, write, read])
    os.close(write)
    os.close(read)
    assert (ended.status, ended.stderr) == (0, "")
    assert ended.pid in pids_in(program.folder / "run.pyio")
    assert kept.read_bytes() == b""


@pytest.mark.parametrize("found", ["json=os;this", "json=", "=this", "json=../this", "json=this:", "json=this."])
def test_what_is_no_name_is_no_instrument(program: Runner, found: str) -> None:
    # GIVEN names of instruments that are no names of modules WHEN a program is traced THEN they are not imported
    env = {"PYIO_TRACE_FOUND": found}
    outcome = succeeded(program.traced(TEXT, env=env))
    assert outcome.stdout == f"ran {outcome.pid}\n"
    assert outcome.process(outcome.pid)["note"] == ""


# ---- privileged in other ways ------------------------------------------------------------------------

PRIVILEGED: dict[str, Callable[[], None]] = {
    "user": lambda: os.setresuid(NOBODY, 0, 0),
    "group": lambda: os.setresgid(NOBODY, 0, 0),
}


@as_root
@pytest.mark.parametrize("what", PRIVILEGED)
@pytest.mark.parametrize("starts", ["site", "auto", "shim"])
def test_whoever_starts_us_leaves_a_privileged_process_alone(place: Path, what: str, starts: str) -> None:
    # GIVEN a process whose user or group is not the one that it was started by, and each way in which tracing starts
    script = place / "program.py"
    script.write_text("import os, sys\nprint(sorted(name for name in sys.modules if name.startswith('pyio_trace.')))\n"
                      "print(os.environ.get('PYIO_TRACE'))\n")  # fmt: skip
    env = {"PYIO_TRACE": "1", "PYIO_TRACE_OUTPUT": str(place / "run.pyio"), "PYIO_TRACE_QUIET": "1"}
    if starts == "shim":
        env["PYTHONPATH"] = told_by_the_installed("reexec._SHIM")
    if starts == "auto":
        (place / "sitecustomize.py").write_text("import pyio_trace.auto\n")
        env["PYTHONPATH"] = str(place)
        del env["PYIO_TRACE"]
    there = set(place.rglob("*"))
    # WHEN it runs THEN nothing is imported and nothing is made; else, with the same environment, it is traced
    ended = run([sys.executable, "-B", script], env, place, before=PRIVILEGED[what])
    modules = {"auto": "['pyio_trace.auto', 'pyio_trace.capture', 'pyio_trace.capture.startup', "
                       "'pyio_trace.capture.startup.site_packages', "
                       "'pyio_trace.capture.startup.site_packages._pyio_trace_start']"}  # fmt: skip
    was = None if starts == "auto" else "1"
    assert (ended.status, ended.stdout, ended.stderr) == (0, f"{modules.get(starts, '[]')}\n{was}\n", "")
    assert set(place.rglob("*")) == there
    assert run([sys.executable, script], env, place).stderr == ""
    assert (place / "run.pyio").exists()


def file_capability(number: int) -> bytes:
    """security.capability, of one that is permitted and effective: vfs_cap_data, revision 2."""
    return struct.pack("<5I", 0x02000000 | 1, 1 << number, 0, 0, 0)


@as_root
def test_file_capabilities(place: Path) -> None:
    # GIVEN a Python whose file gives it a right that its user has not: to read any file
    python = place / "python"
    python.write_bytes(Path(os.path.realpath(sys.executable)).read_bytes())
    python.chmod(0o755)
    try:
        os.setxattr(python, "security.capability", file_capability(2))
    except OSError as problem:
        pytest.skip(f"no file capabilities here: {problem}")
    site = next(entry for entry in sys.path if entry.endswith("site-packages"))
    work = place / "work"
    work.mkdir()
    os.chown(work, NOBODY, NOBODY)
    text = f"import site; site.addsitedir({site!r}); import sys; print('_pyio_trace_start' in sys.modules)"
    env = {"PYIO_TRACE": "1", "PYIO_TRACE_OUTPUT": "run.pyio", "PYIO_TRACE_QUIET": "1", "PYTHONHOME": sys.base_prefix}
    # WHEN that user runs it THEN our .pth is processed, and no file is made
    ended = run([python, "-c", text], env, work, user=NOBODY)
    assert (ended.status, ended.stdout, ended.stderr) == (0, "True\n", "")
    assert list(work.iterdir()) == []
    # WHEN root does, who has the right anyway THEN it is traced
    ended = run([python, "-c", text], env, work)
    assert (ended.status, ended.stdout, ended.stderr) == (0, "True\n", "")
    assert [path.name for path in work.iterdir()] == ["run.pyio"]


@as_root
@pytest.mark.parametrize("privileged", [False, True], ids=["ordinary", "set-uid"])
def test_the_constructor_of_the_core(place: Path, setuid: Path, privileged: bool) -> None:
    # GIVEN a program that is linked with the core: it comes before libc, as if preloaded (the loader of a set-uid
    # program does not heed LD_PRELOAD)
    library = core_library()
    made = place / "linked"
    words = ["cc", "-Wl,--no-as-needed", "-o", made, CSRC / "child.c", library, f"-Wl,-rpath,{library.parent}"]
    subprocess.run(words, check=True)
    made.chmod(0o4755)
    log = killed_log(place / "log.pyio")
    if not privileged:
        made.chmod(0o755)
    # WHEN it is run with the environment of a run that it could join THEN it does, unless it is privileged
    env = {"PYIO_TRACE": "1", "PYIO_TRACE_LOG": str(log), "PYIO_TRACE_FOLLOW": "all"}
    before = pids_in(log)
    run([made], env, place, user=NOBODY if privileged else None)
    assert len(pids_in(log) - before) == (0 if privileged else 1)


@as_root
@pytest.mark.parametrize("words", [["-o", "run.pyio", "-c", "1"], ["run", "-c", "1"], ["nope.py"]])
def test_a_privileged_launch_is_refused(place: Path, words: list[str]) -> None:
    ended = run([sys.executable, "-m", "pyio_trace", *words], {}, place, before=PRIVILEGED["user"])
    assert (ended.status, ended.stdout) == (2, "")
    assert ended.stderr.startswith("pyio-trace: ") and ended.stderr.endswith("[privileged-process]\n")
    assert ended.stderr.count("\n") == 1
    assert list(place.iterdir()) == []


@as_root
def test_trace_in_a_privileged_process_heeds_its_arguments_only(place: Path) -> None:
    # GIVEN a privileged program that traces a part of itself, as it has been written to
    (place / "pyproject.toml").write_text('[tool.pyio_trace]\nmode = "profile"\n')
    text = f"import pyio_trace\nwith pyio_trace.trace({str(place / 'run.pyio')!r}) as run: print(run.mode, 'ran 1')\n"
    (place / "program.py").write_text(text)
    # WHEN its environment and folder have options THEN it has the defaults
    ended = run([sys.executable, "program.py"], {"PYIO_TRACE_MODE": "ring"}, place, before=PRIVILEGED["user"])
    assert (ended.status, ended.stdout, ended.stderr) == (0, "trace ran 1\n", "")
    assert (place / "run.pyio").exists()


# ---- -E and -I -------------------------------------------------------------------------------------


@pytest.mark.parametrize("flag", ["-E", "-I"])
def test_trace_heeds_its_arguments_only(program: Runner, flag: str) -> None:
    # GIVEN options in the environment and in pyproject.toml WHEN a program with that flag calls trace()
    (program.folder / "pyproject.toml").write_text('[tool.pyio_trace]\nstacks = "off"\n')
    text = "import pyio_trace\nwith pyio_trace.trace('run.pyio') as run: open('made', 'w').close(); print(run.mode)\n"
    words = [sys.executable, flag, program.write(text)]
    outcome = succeeded(program.command(words, {"PYIO_TRACE_MODE": "ring"}))
    # THEN there is nothing of them
    assert outcome.stdout == "trace\n"
    assert {row["site"] is None for row in outcome.select(op="open", path=program.folder / "made")} == {False}


@pytest.mark.parametrize("flag", ["-B", "-E", "-I"])
def test_findings_are_not_left_out_by_a_project(place: Path, flag: str) -> None:
    # GIVEN a pyproject.toml that wants no findings, and a program that gives cause for one
    (place / "pyproject.toml").write_text('[tool.pyio_trace.insights]\nignore = ["*:*"]\n')
    lines = "fd = os.open('made', os.O_CREAT | os.O_RDWR)", "for n in range(100_000): os.write(fd, b'0123456789')"
    (place / "program.py").write_text("\n".join(("import os", *lines)))
    # WHEN it is traced THEN the summary at its end heeds that file only if the program does not ignore its surroundings
    ended = run([sys.executable, flag, "program.py"], {"PYIO_TRACE": "1"}, place)
    assert ended.status == 0
    assert ("100,000 writes of 10 B" in ended.stderr.partition("DATA")[2]) == (flag != "-B")


FOLDERS: dict[str, Callable[[Path], object]] = {
    "another's": lambda folder: os.chown(folder, NOBODY, NOBODY),
    "its group's too": lambda folder: folder.chmod(0o775),
    "everybody's": lambda folder: folder.chmod(0o1777),
}


@pytest.mark.parametrize("flag", ["-E", "-I"])
@pytest.mark.parametrize("whose", FOLDERS)
def test_no_log_in_a_folder_that_others_have_a_hand_in(program: Runner, whose: str, flag: str) -> None:
    # GIVEN a current folder that is not this user's alone
    if whose == "another's" and os.geteuid() != 0:
        pytest.skip("a folder of another user's takes root")
    FOLDERS[whose](program.folder)
    script = program.write(TEXT)
    # WHEN a program is to be traced there THEN it runs untraced, and one line says why
    ended = run([sys.executable, flag, script], {"PYIO_TRACE": "1"}, program.folder)
    assert ended.status == 0
    [line] = ended.stderr.splitlines()
    assert line.startswith("pyio-trace: not tracing: ") and line.endswith("[shared-folder]")
    assert [path.name for path in program.folder.iterdir()] == ["program.py"]


def link_to(path: Path) -> None:
    path.rename(path.with_suffix(".real"))
    path.symlink_to(path.with_suffix(".real"))


def replaced(path: Path, make: Callable[[Path], object]) -> None:
    path.unlink()
    make(path)


NO_LOGS: dict[str, Callable[[Path], object]] = {
    "another user's": lambda path: os.chown(path, NOBODY, NOBODY),
    "its group may write": lambda path: path.chmod(0o660),
    "others may write": lambda path: path.chmod(0o602),
    "a link": link_to,
    "a pipe": lambda path: replaced(path, os.mkfifo),
    "a folder": lambda path: replaced(path, Path.mkdir),
    "a device": lambda path: replaced(path, lambda at: os.mknod(at, 0o600 | stat.S_IFCHR, os.makedev(1, 5))),
    "empty": lambda path: replaced(path, Path.touch),
    "of a run that has told nothing": lambda path: set_word(path, "settings", 0),
    "of another version": lambda path: set_word(path, "version", 77),
    "settings beyond its end": lambda path: set_word(path, "settings", 0xFFFFFFFF),
    "settings in its header": lambda path: set_word(path, "settings", 1),
}


def set_word(path: Path, field: str, value: int) -> None:
    with open(path, "r+b") as file:
        file.seek(layout.HEADER.fields[field][1])  # type: ignore[index]
        file.write(value.to_bytes(4, "little"))


@pytest.mark.parametrize("kind", NO_LOGS)
def test_no_log_that_is_not_this_users_alone(program: Runner, kind: str) -> None:
    # GIVEN what PYIO_TRACE_LOG names, and is no log of this user's alone
    if os.geteuid() != 0 and kind in ("another user's", "a device"):
        pytest.skip("that takes root")
    log = killed_log(program.folder / "log.pyio")
    NO_LOGS[kind](log)
    program.write(TEXT)
    # WHEN a program is run with -I THEN it is in a log of its own, by default
    env = {"PYIO_TRACE": "1", "PYIO_TRACE_LOG": str(log)}
    ended = run([sys.executable, "-I", "program.py"], env, program.folder)
    assert ended.status == 0, ended
    [own] = program.folder.glob("pyio-program-*.parquet")
    assert pids_in(own) == {ended.pid}


def forge_settings(log: Path, **values: object) -> None:
    """Gives a log other settings, at a place of their own in it: any process of its run can, also one that has become
    somebody else since."""
    from pyio_trace.capture.runtime import log_settings

    known = log_settings.read(str(log)) | {f"PYIO_TRACE_{name}": str(value) for name, value in values.items()}
    text = "\0".join(f"{name}={value}" for name, value in known.items()).encode()
    at = log.stat().st_size - (64 << 10)
    with open(log, "r+b") as file:
        file.seek(at)
        file.write(struct.pack("<4I", log_settings.STRING, 16 + len(text), 0, len(text)) + text)
    set_word(log, "settings", at >> 4)


@pytest.mark.parametrize("flag", ["-E", "-I"])
@pytest.mark.parametrize("what", ["where its log goes", "that it is elsewhere", "which module to import"])
def test_settings_that_a_process_of_the_run_has_forged(place: Path, what: str, flag: str) -> None:
    # GIVEN a run with a process that has dropped its privileges, and has written over the log for the next to join
    (place / "program.py").write_text(TEXT)
    log = killed_log(place / "log.pyio")
    elsewhere = place / "elsewhere"
    elsewhere.mkdir()
    before = None
    if what == "which module to import":
        forge_settings(log, FOUND="json=this")
    else:
        forge_settings(log, FINAL=elsewhere / "any name")
        before = becomes_its_owner(log)
    if what == "that it is elsewhere":
        set_word(log, "namespace_inode", 77)
    # WHEN a process joins that was told to trust the log alone
    env = {"PYIO_TRACE": "1", "PYIO_TRACE_LOG": str(log)}
    ended = run([sys.executable, flag, "program.py"], env, place, before=before)
    # THEN it makes no file but beside the log that it was given, and imports nothing that it has not found itself
    assert ended.status == 0 and ended.stdout == f"ran {ended.pid}\n"
    assert list(elsewhere.iterdir()) == []
    assert {path.name.partition("-")[0] for path in place.iterdir()} <= {"program.py", "elsewhere", "log.pyio", "log"}


def test_whatever_the_header_says_is_held_against_the_file(tmp_path: Path) -> None:
    # GIVEN a log whose settings, and their length, are any numbers
    from pyio_trace.capture.runtime import log_settings

    log = killed_log(tmp_path / "log.pyio")
    known = log_settings.read(str(log))
    assert known["PYIO_TRACE_OUTPUT"] == str(log)
    size = log.stat().st_size
    string = int.from_bytes(log.read_bytes()[log_settings.SETTINGS_AT : log_settings.SETTINGS_AT + 4], "little") << 4
    ends = [n // 16 + more for n in (string, size) for more in (-1, 0, 1)]
    for at in (0, 1, 2, 255, *ends, 2**31, 2**32 - 1):
        set_word(log, "settings", at)
        try:  # WHEN they are read THEN what is no string is refused
            assert log_settings.read(str(log)) is not None
        except ValueError:
            pass
    set_word(log, "settings", string // 16)
    for length in (log_settings.MOST + 1, size - string - 15, size, 2**31, 2**32 - 1):
        with open(log, "r+b") as file:
            file.seek(string + 12)
            file.write(length.to_bytes(4, "little"))
        with pytest.raises(ValueError):
            log_settings.read(str(log))


def test_the_headers_places_are_those_of_the_layout() -> None:
    from pyio_trace.capture.runtime import log_settings

    fields = layout.HEADER.fields
    assert fields is not None
    assert (fields["settings"][1], fields["version"][1]) == (
        log_settings.SETTINGS_AT,
        log_settings.VERSION_AT,
    )
    assert (layout.HEAP_STRING, layout.STRING.itemsize) == (log_settings.STRING, log_settings.STRING_SIZE)
    assert (
        f"#define PT_SETTINGS_MOST {log_settings.MOST}u"
        in (CSRC.parents[1] / "csrc/core/format/log_format.h").read_text()
    )


@pytest.mark.parametrize("flag", ["-E", "-I"])
def test_a_child_outlives_its_run(program: Runner, flag: str) -> None:
    # GIVEN a log that has been packed WHEN a child of that run starts THEN it runs untraced, without a word
    program.write(TEXT)
    env = {"PYIO_TRACE": "1", "PYIO_TRACE_LOG": str(program.folder / "gone.pyio")}
    ended = run([sys.executable, flag, "program.py"], env, program.folder)
    assert (ended.status, ended.stderr) == (0, "")
    assert [path.name for path in program.folder.iterdir()] == ["program.py"]


# ---- launches with -E and -I ---------------------------------------------------------------------------

PARENT = """\
import os, subprocess, sys
with open("parent", "w") as file: file.write("12345")
for flag in ("-I", "-E", "-B"):
    subprocess.run([sys.executable, flag, "child.py", flag], check=True)
"""
CHILD = "import sys\nwith open('child' + sys.argv[1], 'w') as file: file.write('123')\n"


def launched(program: Runner, flag: str, *options: str, env: Mapping[str, str] | None = None) -> Outcome:
    program.write(CHILD, "child.py")
    program.write(PARENT)
    words = [sys.executable, flag, "-m", "pyio_trace", "-q", *options, "program.py"]
    return succeeded(program.command(words, env))


@pytest.mark.parametrize("flag", ["-E", "-I"])
def test_a_launch_obeys_its_options(program: Runner, flag: str) -> None:
    # GIVEN options on a command line, and others in the environment and the project
    (program.folder / "pyproject.toml").write_text('[tool.pyio_trace]\nmin_size = "4K"\n')
    env = {"PYIO_TRACE_MODE": "ring", "PYIO_TRACE_OUTPUT": "other.pyio", "PYIO_TRACE_FOUND": "json=this"}
    # WHEN a program is launched by an interpreter that ignores the latter
    outcome = launched(program, flag, "-o", "run.pyio", "--mode", "profile", "--exclude", "*child-E", env=env)
    # THEN those that were typed count, in its children too, and it is a run like any other
    assert (outcome.stdout, outcome.stderr) == ("", "")
    assert not (program.folder / "other.pyio").exists()
    assert outcome.log.info()["mode"] == "profile"
    writes = outcome.select(op="write", layer="posix")
    mine = [row for row in writes if os.path.dirname(row["path"]) == str(program.folder)]
    sums = {os.path.basename(row["path"]): row["bytes_moved"] for row in mine}
    assert sums == {"parent": 5, "child-I": 3, "child-B": 3}
    starts = [(entry["pid"] == outcome.pid, entry["start"], entry["ended"]) for entry in outcome.processes]
    assert starts[0] == (True, "top", "exit 0")
    assert len({entry["pid"] for entry in outcome.processes}) == 4
    assert [entry["argv"][1:3] for entry in outcome.processes if entry["pid"] == outcome.pid] == [[flag, "program.py"]]
    assert outcome.log.losses() == {}


@pytest.mark.parametrize("flag", ["-E", "-I"])
def test_a_launch_packs_its_log(program: Runner, flag: str) -> None:
    # GIVEN no option at all WHEN a program is launched THEN its log has the default name, and is packed
    outcome = launched(program, flag)
    [log] = program.folder.glob("pyio-program-*")
    assert log.suffix == ".parquet"
    outcome.path = log
    assert len({entry["pid"] for entry in outcome.processes}) == 4
    assert outcome.log.losses() == {}


def test_a_launch_without_children(program: Runner) -> None:
    # GIVEN --follow=none WHEN a program is launched with -I THEN its children are in no log
    outcome = launched(program, "-I", "-o", "run.pyio", "--follow", "none")
    assert {entry["pid"] for entry in outcome.processes if entry["followed"]} == {outcome.pid}
    assert not list(program.folder.glob("pyio-*"))


def test_a_plain_launchs_isolated_children(program: Runner) -> None:
    # GIVEN a plain launch WHEN its program starts Pythons with -I and -E THEN they are in its log, under its rules
    program.write(CHILD, "child.py")
    program.write(PARENT)
    words = [sys.executable, "-m", "pyio_trace", "-q", "-o", "run.parquet", "--exclude", "*child-E", "program.py"]
    outcome = succeeded(program.command(words, log="run.parquet"))
    written = {os.path.basename(row["path"]) for row in outcome.select(op="write", layer="posix") if row["path"]}
    assert {"parent", "child-I", "child-B"} <= written
    assert "child-E" not in written
    assert outcome.log.losses() == {}


SPAWNS = """\
import multiprocessing, os
def work(n):
    with open(f"worker-{n}", "w") as file: file.write("x" * n)
if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    worker = context.Process(target=work, args=(7,))
    worker.start()
    worker.join()
    print(worker.exitcode)
"""


def test_isolated_workers_go_by_their_script(program: Runner) -> None:
    # GIVEN a program with -I whose workers multiprocessing starts, with -I too
    program.write(SPAWNS)
    us = [sys.executable, "-I", "-m", "pyio_trace", "-q", "-o", "run.pyio"]
    words = [*us, "--include", "process:program.py", "program.py"]
    # WHEN the script's name is in a rule THEN it is known to them from the log, and not from the environment
    outcome = succeeded(program.command(words, {"PYIO_TRACE_SCRIPT": "other.py"}))
    assert outcome.stdout == "0\n"
    assert [row["bytes_moved"] for row in outcome.select(op="write", path=program.folder / "worker-7")] == [7]


def test_an_isolated_launch_within_a_run(program: Runner) -> None:
    # GIVEN a traced program WHEN it launches another, with -I THEN that has a log of its own, with its own options
    program.write("import os\nos.close(os.open('inner', os.O_CREAT))\n", "inner.py")
    text = """\
    import subprocess, sys
    words = [sys.executable, "-I", "-m", "pyio_trace", "-q", "-o", "inner.pyio", "inner.py"]
    sys.exit(subprocess.run(words).returncode)
    """
    for follow in ("python", "all"):
        outcome = succeeded(program.traced(text, env={"PYIO_TRACE_FOLLOW": follow}))
        assert outcome.stderr == ""
        inner = pyio_trace.open(program.folder / "inner.pyio")
        assert str(program.folder / "inner") in inner.operations()["path"].to_pylist()
        assert str(program.folder / "inner") not in outcome.table["path"].to_pylist()
        (program.folder / "inner.pyio").unlink()


def test_an_isolated_launch_that_cannot_be(program: Runner) -> None:
    # GIVEN a rule and a name that cannot be WHEN a launch with -I has them THEN it is one line, status 2 and no log
    program.write(TEXT)
    many = ",".join(f"/{n}" for n in range(300))
    for words in (["--exclude", "op:nope"], ["-o", "/proc/run.pyio"], ["--include", many]):
        outcome = program.command([sys.executable, "-I", "-m", "pyio_trace", *words, "program.py"])
        assert (outcome.status, outcome.stdout) == (2, "")
        assert outcome.stderr.startswith("pyio-trace: ") and outcome.stderr.count("\n") == 1
        assert [path.name for path in program.folder.iterdir()] == ["program.py"]
