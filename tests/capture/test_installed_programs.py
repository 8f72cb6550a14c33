"""A program that is installed: the package that was started is the program, however it was started."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pyio_trace.analysis.summary.summarize import summarize
from pyio_trace.capture.runtime.started_package import started_packages
from tests.support.programs import Outcome, Runner, succeeded

WORK = """\
import os
def save(folder):
    for n in range(3):
        with open(f"{folder}/f{n}", "w") as file:
            os.fsync(file.fileno())
"""
PIP = """\
#!/usr/bin/python3
# -*- coding: utf-8 -*-
import re
import sys
from {module} import main
if __name__ == '__main__':
    sys.argv[0] = re.sub(r'(-script\\.pyw|\\.exe)?$', '', sys.argv[0])
    sys.exit(main())
"""
UV = """\
#!/usr/bin/python3
# -*- coding: utf-8 -*-
import sys
from {module} import main
if __name__ == "__main__":
    if sys.argv[0].endswith("-script.pyw"):
        sys.argv[0] = sys.argv[0][:-11]
    elif sys.argv[0].endswith(".exe"):
        sys.argv[0] = sys.argv[0][:-4]
    sys.exit(main())
"""
CLI = "import sys\nfrom {package} import work\ndef main():\n    work.save(sys.argv[1])\n"
MAIN = "from {module} import main\nmain()\n"
LINE = 5  # of fsync in WORK


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder of installed packages: a package, one in a namespace, a module, and a package with a helper package."""
    folder = tmp_path / "lib" / "python{}.{}".format(*sys.version_info) / "site-packages"
    for package in ("tool", "space/inner"):
        name = package.replace("/", ".")
        (folder / package).mkdir(parents=True)
        (folder / package / "__init__.py").touch()
        (folder / package / "work.py").write_text(WORK)
        (folder / package / "cli.py").write_text(CLI.format(package=name))
        (folder / package / "__main__.py").write_text(MAIN.format(module=f"{name}.cli"))
    (folder / "single.py").write_text(f"import sys\n{WORK}def main():\n    save(sys.argv[1])\n")
    (folder / "thin").mkdir()
    (folder / "thin" / "__init__.py").touch()
    (folder / "thin" / "__main__.py").write_text("from _thin.cli import main\nmain()\n")
    (folder / "_thin").mkdir()
    (folder / "_thin" / "__init__.py").touch()
    (folder / "_thin" / "work.py").write_text(WORK)
    (folder / "_thin" / "cli.py").write_text(CLI.format(package="_thin"))
    (folder / "Thin-1.0.dist-info").mkdir()
    record = ("thin/__init__.py", "thin/__main__.py", "_thin/__init__.py", "_thin/work.py", "Thin-1.0.dist-info/RECORD")
    (folder / "Thin-1.0.dist-info" / "RECORD").write_text("".join(f"{name},,\n" for name in record))
    (tmp_path / "bin").mkdir()
    return folder


def syncs(outcome: Outcome) -> set[tuple[str, int, bool]]:
    """The lines that sync: file, line, and whether they are the program's."""
    own = succeeded(outcome).log.own_code()
    found = {row["site"] for row in outcome.select(op="fsync")}
    return {(Path(one.split(":")[0]).name, int(one.split(":")[1]), own.is_own(one)) for one in found}


@pytest.mark.parametrize(
    ("words", "text", "packages", "line"),
    [
        (("-m", "tool"), "", ["tool"], ("work.py", LINE)),
        (("-m", "space.inner"), "", ["space.inner"], ("work.py", LINE)),
        (("-m", "thin"), "", ["thin", "_thin"], ("work.py", LINE)),
        (("bin/tool",), PIP.format(module="tool.cli"), ["tool"], ("work.py", LINE)),
        (("bin/thin",), UV.format(module="_thin.cli"), ["_thin", "thin"], ("work.py", LINE)),
        (("bin/single3.11",), UV.format(module="single"), ["single"], ("single.py", LINE + 1)),
    ],
)  # fmt: skip
def test_its_lines_are_the_programs(
    program: Runner, site: Path, words: tuple[str, ...], text: str, packages: list[str], line: tuple[str, int]
) -> None:
    # GIVEN an installed program WHEN it is started by -m, or by the script that an installer wrote for it
    (program.folder / "data").mkdir()
    if text:
        (program.folder / words[0]).write_text(text)
    env = {"PYTHONPATH": str(site), "PYIO_TRACE": "1", "PYIO_TRACE_OUTPUT": "run.pyio", "PYIO_TRACE_QUIET": "1"}
    outcome = program.command([sys.executable, *words, program.folder / "data"], env)
    # THEN the log says which packages are the program, and that its innermost line made the calls
    assert syncs(outcome) == {(*line, True)}
    assert outcome.processes[0]["program_packages"] == packages
    # AND it has started once its own code runs
    first = min(row["time"] for row in outcome.rows if row["op"] == "fsync")
    overview = summarize(outcome.log).overview
    assert overview is not None
    assert overview.processes[0].split.starting_ns < first - outcome.processes[0]["begin"]


@pytest.mark.parametrize(
    ("module", "packages"), [("tool", ["tool"]), ("thin", ["thin", "_thin"]), ("space.inner", ["space.inner"])]
)
def test_a_module_whose_folder_is_added_late(program: Runner, site: Path, module: str, packages: list[str]) -> None:
    # GIVEN a module in a folder that is added to sys.path after tracing has started, as a virtual environment does
    # with the packages of its base
    (program.folder / "data").mkdir()
    (program.folder / "early").mkdir()
    (program.folder / "early" / "sitecustomize.py").write_text(f"import sys\nsys.path.append({str(site)!r})\n")
    env = {"PYTHONPATH": str(program.folder / "early"), "PYIO_TRACE": "1", "PYIO_TRACE_OUTPUT": "run.pyio"}
    # WHEN python -m runs it THEN its lines are the program's
    outcome = program.command([sys.executable, "-m", module, program.folder / "data"], env | {"PYIO_TRACE_QUIET": "1"})
    assert {own for _file, _line, own in syncs(outcome)} == {True}
    assert outcome.processes[0]["program_packages"] == packages


def test_under_the_launcher_too(program: Runner, site: Path) -> None:
    # GIVEN an installed program WHEN it is traced with `python -m pyio_trace -m` THEN it is as without
    words = [sys.executable, "-m", "pyio_trace", "-q", "-o", "run.pyio", "-m", "tool", "."]
    assert syncs(program.command(words, {"PYTHONPATH": str(site)})) == {("work.py", LINE, True)}


def test_a_script_that_uses_a_package_is_the_users(program: Runner, site: Path) -> None:
    # GIVEN scripts without an ending that import a package and call it, among other things WHEN they run
    env = {"PYTHONPATH": str(site), "PYIO_TRACE": "1", "PYIO_TRACE_OUTPUT": "run.pyio", "PYIO_TRACE_QUIET": "1"}
    (program.folder / "bin" / "mine").write_text("from tool import work\nwork.save('.')\n")
    outcome = program.command([sys.executable, "bin/mine"], env)
    # THEN their lines are the program's
    assert syncs(outcome) == {("mine", 2, True)}
    assert outcome.processes[0]["program_packages"] == []


def test_a_program_from_a_pipe_is_left_alone(program: Runner) -> None:
    # GIVEN a program that Python reads from a pipe, so that nobody else may WHEN it is traced THEN it runs
    env = {"PYIO_TRACE": "1", "PYIO_TRACE_OUTPUT": "run.pyio", "PYIO_TRACE_QUIET": "1"}
    outcome = succeeded(program.command(["bash", "-c", f"{sys.executable} <(echo 'print(5)')"], env))
    assert outcome.stdout == "5\n"


@pytest.mark.parametrize(
    ("text", "module"),
    [
        ("from tool.cli import Class\nif 1:\n    sys.exit(Class.main())\n", "tool"),
        ("import tool.cli\nsys.exit(tool.cli.main())\n", "tool"),
        ("from importlib import import_module\nsys.exit(import_module('tool.cli').main())\n", "tool"),
        ("from tool.cli import main\nif 1:\n    raise SystemExit(main())\n", "tool"),
        ("from x import load_entry_point\nsys.exit(load_entry_point('Thin==1.0', 'x', 'thin')())\n", "thin"),
        ("import tool\ndef main():\n    tool.run()\nsys.exit(main())\n", None),
        ("from tool.cli import main\n" + "# words\n" * 600 + "sys.exit(main())\n", None),
        ("from tool.cli import main\nsys.exit(main(5))\n", None),
        ("from nowhere.cli import main\nsys.exit(main())\n", None),
    ],
)  # fmt: skip
def test_what_a_console_script_calls(
    tmp_path: Path, site: Path, monkeypatch: pytest.MonkeyPatch, text: str, module: str | None
) -> None:
    # GIVEN scripts as installers write them, and others WHEN they are read THEN it is known which package they start
    (tmp_path / "bin" / "tool").write_text(text)
    monkeypatch.setattr(sys, "orig_argv", ["python", "-X", "dev", str(tmp_path / "bin" / "tool"), "-m", "other"])
    monkeypatch.setattr(sys, "path", ["", "/nowhere", str(site)])
    assert started_packages()[:1] == ([module] if module else [])


@pytest.mark.parametrize(
    "words", [[], ["-"], ["-c", "pass"], ["train.py"], ["gone"], ["-m", ""], ["-m", ".."], ["a\0b"]]
)
def test_what_is_no_installed_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    # GIVEN other command lines WHEN they are looked at THEN no package was started
    monkeypatch.setattr(sys, "orig_argv", ["python", *words])
    monkeypatch.setattr(sys, "path", [str(tmp_path), "x\0y"])
    monkeypatch.chdir(tmp_path)
    assert started_packages() == []
