"""Whose a line is: the user's own, of the package that was started, of `python -c`, a library's, or nobody's."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyio_trace.join.pack.packer import pack
from pyio_trace.join.sources.facade import Log
from pyio_trace.join.sources.opening import open_log
from pyio_trace.log import layout
from tests.support.logwriter import LogWriter

SITE = "/venv/lib/python3.12/site-packages"
OWN, TOOL, OTHER = "/home/user/conf.py", f"{SITE}/tool/work.py", f"{SITE}/click/core.py"
STANDARD, SCRIPT = "/usr/lib/python3.12/shutil.py", "/venv/bin/tool"
TYPED = ("<stdin>", "<console>", "<python-input-3>", "<ipython-input-3-4f>", "<doctest x[0]>", "<timeit-src>")
GENERATED = (
    "<string>",
    "<attrs generated init x.Y>",
    "<template>",
    "<lambdifygenerated-1>",
    "<__array_function__ internals>",
)


class Logs:
    """Writes logs in which processes have made calls from stacks."""

    def __init__(self, folder: Path) -> None:
        self.writer, self.folder = LogWriter(), folder
        self.calls = 0

    def process(
        self, *argv: str, packages: str = "", parent: int = 0, start: int = layout.START_TOP, pid: int = 0
    ) -> int:
        """A process of Python; packages: that are its program."""
        pid = pid or 100 + len(self.writer.data) // layout.PAGE
        return self.writer.process(
            pid, argv=["python", *argv], version="3.12.1", start=start, parent=parent, begin=1_500,
            cwd=self.writer.string("/home/user"), program=self.writer.string(packages) if packages else 0,
        )  # fmt: skip

    def call(self, process: int, *frames: tuple[str, str] | str) -> str:
        """A call from a stack of files, or files and functions, innermost first; returns its path."""
        self.calls += 1
        codes = [self.writer.code(*((one, "f") if isinstance(one, str) else one)) for one in frames]
        thread = self.writer.thread(process, 100)
        path = f"/x{self.calls}"
        stack = self.writer.stack(*((code, 7) for code in codes))
        thread.record("STAT", begin=2_000, desc=self.writer.string(path), stack=stack)
        return path

    def read(self) -> Log:
        """The log, packed: what it says does not depend on that."""
        live = self.writer.save(self.folder / "run.pyio")
        pack(live, self.folder / "run.parquet")
        log = open_log(self.folder / "run.parquet")
        assert log.operations().equals(open_log(live).operations())
        return log


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    return Logs(tmp_path)


def sites(log: Log) -> dict[str, tuple[str, bool]]:
    """By path: the file of the line that made the call, and whether it is the program's."""
    own = log.own_code()
    rows = log.operations(["path", "site"]).to_pylist()
    return {row["path"]: (row["site"].rsplit(":", 2)[0], own.is_own(row["site"])) for row in rows}


@pytest.mark.parametrize("argv", [("-m", "tool"), (SCRIPT,), ("bin/../../../venv/bin/tool",)])
def test_the_package_that_was_started_is_the_program(logs: Logs, argv: tuple[str, ...]) -> None:
    # GIVEN a package that was started by -m or by its console script
    process = logs.process(*argv, packages="tool,_tool")
    start = [(SCRIPT, "<module>")] if argv[0] != "-m" else [(f"{SITE}/tool/__main__.py", "<module>"), "<frozen runpy>"]
    inner = logs.call(process, STANDARD, TOOL, OTHER, *start)
    second = logs.call(process, OTHER, f"{SITE}/_tool.py", *start)
    users = logs.call(process, TOOL, OTHER, OWN, TOOL, *start)
    thread = logs.call(process, STANDARD, OTHER, "/usr/lib/python3.12/threading.py")
    like = logs.call(process, f"{SITE}/toolbox/x.py", "/usr/lib/python3.12/threading.py")
    # WHEN its calls are read THEN its innermost line is the site, before other packages and the script that calls it;
    # a line of the user's own comes before; a package with a similar name is a library
    assert sites(logs.read()) == {
        inner: (TOOL, True), second: (f"{SITE}/_tool.py", True), users: (OWN, True),
        thread: (OTHER, False), like: (f"{SITE}/toolbox/x.py", False),
    }  # fmt: skip


def test_modules_of_the_standard_library_and_of_namespaces(logs: Logs) -> None:
    # GIVEN a module of the standard library and a package in a namespace that were started, and an egg
    process = logs.process("-m", "shutil", packages="shutil,space.tool,egged")
    names = [STANDARD, f"{SITE}/space/tool/a.py", f"{SITE}/egged-1.0-py3.12.egg/egged/a.py", f"{SITE}/space/other/a.py"]
    paths = [logs.call(process, one) for one in names]
    # WHEN read THEN they are the program, and their neighbours are not
    assert sites(logs.read()) == dict(zip(paths, zip(names, (True, True, True, False), strict=True), strict=True))


def test_where_a_started_package_is_no_program(logs: Logs) -> None:
    # GIVEN packages that other programs of Python start (as joblib starts its workers), and a package that starts a
    # script of the user's own (torchrun)
    launcher = logs.process("-m", "launcher", packages="launcher")
    train = logs.process("train.py", parent=launcher, start=layout.START_JOINED)
    logs.process("-m", "worker.main", packages="worker", parent=train, start=layout.START_JOINED)
    first = logs.process("-m", "first", packages="first")
    logs.process("/venv/bin/pool", packages="pool", parent=first, start=layout.START_JOINED)
    logs.process("-c", "from multiprocessing.spawn import spawn_main", parent=first, start=layout.START_JOINED)
    names = [f"{SITE}/{name}/a.py" for name in ("worker", "launcher", "pool", "first")]
    paths = [logs.call(launcher, one) for one in names]
    # WHEN read THEN these are libraries, and the package that a person started to do the work is the program
    assert sites(logs.read()) == dict(zip(paths, zip(names, (False, False, False, True), strict=True), strict=True))


def test_a_program_that_becomes_another_one(logs: Logs) -> None:
    # GIVEN a program that becomes another one by exec (`poetry run tool`) WHEN read THEN that is the program
    former = logs.process("/venv/bin/poetry", packages="poetry", pid=100)
    latter = logs.process(SCRIPT, packages="tool", pid=100, start=layout.START_JOINED, parent=former)
    path = logs.call(latter, STANDARD, TOOL, (SCRIPT, "<module>"))
    assert sites(logs.read()) == {path: (TOOL, True)}


def test_processes_that_started_each_other(logs: Logs) -> None:
    # GIVEN a forged log in which processes are their own ancestors WHEN it is read THEN that ends
    writer = logs.writer
    first, second = (logs.process("-m", "tool", packages="tool") for _ in range(2))
    for one, other in ((first, second), (second, first)):
        at = (one << layout.ID_SHIFT) + layout.PROCESS_ENTRY.fields["parent"][1]
        writer.put(at, other.to_bytes(4, "little"))
    path = logs.call(first, TOOL)
    assert sites(logs.read()) == {path: (TOOL, False)}


@pytest.mark.parametrize("file", GENERATED)
def test_generated_code_is_nobodys(logs: Logs, file: str) -> None:
    # GIVEN code that a library generated, called by the program, by a library's thread, or by nobody else
    process = logs.process("/home/user/train.py")
    called = logs.call(process, STANDARD, (file, "get"), OWN)
    library = logs.call(process, (file, "get"), OTHER)
    alone = logs.call(process, (file, "get"), "/usr/lib/python3.12/threading.py")
    # WHEN read THEN the line that called it is the site; where only the standard library did, it is its own
    found = sites(logs.read())
    assert {path: file for path, (file, _) in found.items()} == {called: OWN, library: OTHER, alone: file}


@pytest.mark.parametrize("file", TYPED)
def test_what_a_person_typed_is_the_programs(logs: Logs, file: str) -> None:
    # GIVEN code of a prompt, a notebook, a doctest WHEN read THEN its innermost line is the site
    path = logs.call(logs.process(), STANDARD, (file, "f"), OWN)
    assert sites(logs.read()) == {path: (file, True)}


def test_functions_of_a_command(logs: Logs) -> None:
    # GIVEN `python -c` with a function, a class and a lambda, and generated code in it
    code = "import os\ndef work(): os.stat('x')\nclass Item:\n  load = lambda self: work()\nItem().load()"
    process = logs.process("-c", code)
    text = "<string>"
    ends = [(text, "<module>")]
    stacks = [("work", "<lambda>"), ("__init__",), ("get", "work"), ()]
    paths = [logs.call(process, STANDARD, *((text, name) for name in names), *ends) for names in stacks]
    in_thread = logs.call(process, (text, "work"), "/usr/lib/python3.12/threading.py")
    log = logs.read()
    # WHEN read THEN functions that it defines are the site, generated ones are not
    found = {row["path"]: row["site"] for row in log.operations(["path", "site"]).to_pylist()}
    expected = ["work", "<module>", "work", "<module>", "work"]
    assert found == {path: f"{text}:7:{name}" for path, name in zip([*paths, in_thread], expected, strict=True)}


def test_earlier_logs_name_no_packages(logs: Logs) -> None:
    # GIVEN a log of an earlier version, which does not know what was started WHEN read THEN it is read as before
    path = logs.call(logs.process("-m", "tool"), STANDARD, TOOL, (f"{SITE}/tool/__main__.py", "<module>"))
    assert sites(logs.read()) == {path: (TOOL, False)}
