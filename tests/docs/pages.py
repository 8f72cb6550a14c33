"""Runs what a page of the documentation shows: its programs, its commands, its Python, in the order of the page.

What a fenced block is, its language says:

- ``console``: a line that begins with "$ " is a command; the lines below it are what it prints (see _printed()).
- ``python`` with a first line such as "# train.py" is that file; any other is run in one interpreter for the page.
- ``output``: what the Python above it prints (see _printed()).
- ``toml`` and ``ini`` with a first line such as "# pyproject.toml" are files too.
- ``text`` and everything else is not run.

A comment ``<!-- needs: torch numpy -->`` names the modules that the rest of the page needs.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tests.support.programs import clean_environment

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT = 240
_ATTEMPTS = 3

_FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$|^<!-- needs: ([\w .]+) -->$", re.M | re.S)
_FILE = re.compile(r"# ([\w./-]+\.(?:py|toml|cfg|ini))\n")
_WORD = re.compile(r"[a-zA-Z][a-zA-Z_.]*[a-zA-Z]")
_SITE = re.compile(r"[\w-]+\.py:\d+")
#: What stands instead of "(cached)" where the machine has had no room to keep a file in memory.
_FROM_STORAGE = re.compile(r"\(\d[\d.]* \w+ from storage\)")
#: Words for sizes and times, which differ from run to run.
_UNITS = {"ns", "us", "ms", "KiB", "MiB", "GiB"}

#: Runs blocks of Python one after the other in one namespace: a JSON line in, a JSON line out.
_INTERPRETER = """
import contextlib, io, json, sys, traceback
sys.path.insert(0, "")
namespace = {"__name__": "__main__"}
for line in sys.stdin:
    printed = io.StringIO()
    failed = ""
    with contextlib.redirect_stdout(printed):
        try:
            exec(compile(json.loads(line), "<ipython-input-1>", "exec"), namespace)
        except BaseException:
            failed = traceback.format_exc()
    print(json.dumps([printed.getvalue(), failed]), flush=True)
"""


@dataclass
class Block:
    """A fenced block. language: "" where none is given, "needs" for the comment; line: where in the page it begins."""

    language: str
    text: str
    line: int


class Failed(AssertionError):
    """A command or a block of the page failed, or does not print what the page shows."""


class Unlike(Failed):
    """What is printed lacks a line that the page shows."""


def blocks(page: Path) -> Iterator[Block]:
    """The page's fenced blocks, in order."""
    text = page.read_text()
    for found in _FENCE.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        if found[3]:
            yield Block("needs", found[3], line)
        else:
            yield Block(found[1], found[2], line)


def missing(needs: str) -> list[str]:
    """Those of the modules that are not installed."""
    return [name for name in needs.split() if find_spec(name) is None]


class Page:
    """One page run in one folder."""

    def __init__(self, path: Path, folder: Path) -> None:
        self.path = path
        self.folder = folder
        self.skipped = ""  #: why the rest of the page was not run
        self.commands = 0
        self._answer = ""  # what the latest Python printed
        self._environment = clean_environment(PATH=f"{_shims(folder)}:/usr/bin:/bin", COLUMNS="120")
        self._interpreter: subprocess.Popen[str] | None = None

    def run(self) -> None:
        """Runs the page; raises Failed."""
        # A short name: Ray has its sockets in this folder.
        with tempfile.TemporaryDirectory(prefix="page-", dir="/tmp") as temporary:
            self._environment["TMPDIR"] = temporary
            self._run()

    def _run(self) -> None:
        try:
            for block in blocks(self.path):
                if block.language == "needs":
                    absent = missing(block.text)
                    if absent:
                        self.skipped = f"{self.path.name}:{block.line}: {', '.join(absent)} is not installed"
                        return
                self._block(block)
        finally:
            if self._interpreter is not None:
                self._interpreter.communicate(timeout=TIMEOUT)

    def _block(self, block: Block) -> None:
        where = f"{self.path.name}:{block.line}"
        name = _FILE.match(block.text)
        if name and block.language in ("python", "toml", "ini"):
            (self.folder / name[1]).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name[1]).write_text(block.text)
        elif block.language == "python":
            self._python(block.text, where)
        elif block.language == "output":
            _check(block.text.splitlines(), self._answer, where)
        elif block.language == "console":
            for command, shown in _commands(block.text):
                self._command(command, shown, where)

    def _command(self, command: str, shown: list[str], where: str) -> None:
        """Runs a command; again, up to _ATTEMPTS times, where its output is not what the page shows: which lines of a
        program come first depends on times, and a busy disk alone can put others there."""
        self.commands += 1
        for left in reversed(range(_ATTEMPTS)):
            try:
                return _check(shown, self._output(command, where), f"{where}: {command}")
            except Unlike:
                if not left:
                    raise

    def _output(self, command: str, where: str) -> str:
        done = subprocess.run(
            ["bash", "-c", command], cwd=self.folder, env=self._environment, capture_output=True, text=True,
            timeout=TIMEOUT,
        )  # fmt: skip
        printed = done.stdout + done.stderr
        if done.returncode:
            raise Failed(f"{where}: {command}: status {done.returncode}\n{printed}")
        return printed

    def _python(self, text: str, where: str) -> None:
        self.commands += 1
        if self._interpreter is None:
            self._interpreter = subprocess.Popen(
                [sys.executable, "-c", _INTERPRETER], cwd=self.folder, env=self._environment, text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            )  # fmt: skip
        assert self._interpreter.stdin is not None and self._interpreter.stdout is not None
        self._interpreter.stdin.write(json.dumps(text) + "\n")
        self._interpreter.stdin.flush()
        answer = self._interpreter.stdout.readline()
        if not answer:
            raise Failed(f"{where}: the interpreter has ended")
        self._answer, failed = json.loads(answer)
        if failed:
            raise Failed(f"{where}: {failed}")


def _shims(folder: Path) -> Path:
    """`python` and `pyio-trace` of the interpreter that runs the tests, whatever is first on the PATH."""
    shims = folder.parent / f"{folder.name}-bin"
    shims.mkdir()
    python = shlex.quote(sys.executable)
    for name, words in (("python", python), ("python3", python), ("pyio-trace", f"{python} -m pyio_trace")):
        (shims / name).write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        (shims / name).chmod(0o755)
    return shims


def _commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """(command, the lines shown below it)."""
    command, shown = "", []
    for line in text.splitlines():
        if line.startswith("$ "):
            if command:
                yield command, shown
            command, shown = line[2:], []
        elif command.endswith("\\"):
            command += "\n" + line
        else:
            shown.append(line)
    if command:
        yield command, shown


def _check(shown: list[str], printed: str, where: str) -> None:
    for line in shown:
        if line.strip() not in ("", "...") and not _printed(line, printed):
            raise Unlike(f"{where}: the page shows a line that is not printed:\n{line}\n\n{printed}")


def _printed(shown: str, printed: str) -> bool:
    """Whether some line that was printed has the words and the lines of code of the one that the page shows.

    Figures, paths and widths differ from run to run; words such as "numpy.load" and sites such as "train.py:9" do not.
    """
    wanted = [word for word in _WORD.findall(re.sub(r"\S*/\S*", " ", shown)) if word not in _UNITS]
    wanted += _SITE.findall(shown)
    printed = _FROM_STORAGE.sub("(cached)", printed)
    return any(all(word in line for word in wanted) for line in printed.splitlines())
