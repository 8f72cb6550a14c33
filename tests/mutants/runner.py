"""Mutants: small changes of meaning, each of which a test ought to notice.

Nothing happens in the checkout.  A workshop is a copy of it in a temporary
folder, with an environment of its own: the tests import the copy, and the
programs they run import what is installed there, so a mutant is put into both.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_BUILD_TOOL = "scikit-build-core>=0.10"  # pyproject.toml, build-system
_PYTEST = ["-m", "pytest", "-x", "-q", "-pno:randomly", "-pno:cacheprovider", "--outcomes", "build/outcomes.json"]


class WrongList(Exception):
    """The list does not fit the tree, or the tests fail without a mutant."""


@dataclass(frozen=True)
class Mutant:
    """One change.  breaks: what a user would get wrong; tests: files, folders or tests, the likeliest first."""

    number: int
    file: str
    old: str
    new: str
    breaks: str
    tests: tuple[str, ...]


@dataclass(frozen=True)
class Verdict:
    """word: killed, limit of time (which counts as killed) or survived.  by: the test that failed."""

    word: str
    by: str = ""


def read(path: Path) -> list[Mutant]:
    """The mutants of a list, numbered from 1."""
    entries = tomllib.loads(path.read_text())["mutant"]
    return [Mutant(number, **{**entry, "tests": tuple(entry["tests"])}) for number, entry in enumerate(entries, 1)]


def stale(mutants: Sequence[Mutant], root: Path) -> list[str]:
    """Problems of a list: a text that does not occur exactly once in its file, a test file that does not exist."""
    found = []
    for mutant in mutants:
        path = root / mutant.file
        if (times := path.read_text().count(mutant.old) if path.is_file() else 0) != 1:
            found.append(f"{mutant.number}: its old text is {times} times in {mutant.file}")
        if mutant.old == mutant.new:
            found.append(f"{mutant.number}: changes nothing")
        files = [test.partition("::")[0] for test in mutant.tests]
        found += [f"{mutant.number}: there is no {file}" for file in files if not (root / file).exists()]
    return found


@dataclass(frozen=True)
class Workshop:
    """A tree to change, the Python that tests it, and where that Python's installed copy is.  build: CMake's folder."""

    tree: Path
    python: Path
    site: Path
    build: Path

    @classmethod
    def set_up(cls, folder: Path) -> Workshop:
        """A copy of the checkout with an environment: the third-party packages are those of this Python."""
        tree, environment = folder / "tree", folder / "environment"
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, stdout=subprocess.PIPE,
            text=True, check=True,
        )  # fmt: skip
        for name in filter(None, listed.stdout.split("\0")):
            if (ROOT / name).is_file():
                (tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, tree / name)
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
        scheme = {"base": str(environment), "platbase": str(environment)}
        made = cls(
            tree, environment / "bin/python", Path(sysconfig.get_path("platlib", "venv", scheme)), folder / "build"
        )
        others = [name for name in sys.path if name.endswith(("site-packages", "dist-packages"))]
        (made.site / "others.pth").write_text("\n".join(others) + "\n")
        install: list[str | Path] = [made.python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*install, "--ignore-installed", _BUILD_TOOL], check=True)
        own: list[str | Path] = [
            "--no-deps",
            "--no-build-isolation",
            "--ignore-installed",
            "-C",
            f"build-dir={made.build}",
            tree,
        ]
        subprocess.run([*install, *own], check=True)
        return made

    @contextmanager
    def changed(self, mutant: Mutant) -> Iterator[None]:
        """Puts the mutant into the tree and the installed package, and takes it out again."""
        before = (self.tree / mutant.file).read_text()
        try:
            self._put(mutant.file, before.replace(mutant.old, mutant.new))
            yield
        finally:
            self._put(mutant.file, before)

    def _put(self, file: str, text: str) -> None:
        path = self.tree / file
        path.write_text(text)
        if path.suffix != ".py":
            self._install_core()
            return
        for place in (path, self.site / file):
            place.write_text(text)
            for compiled in place.parent.glob(f"__pycache__/{place.stem}.*"):  # its time is in whole seconds
                compiled.unlink()

    def _install_core(self) -> None:
        """Builds what has changed and installs it."""
        install: list[str | Path] = ["--install", self.build, "--prefix", self.site]
        for words in (["--build", self.build], install):
            done = subprocess.run(["cmake", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if done.returncode:
                raise WrongList(f"cmake {words[0]} failed:\n{done.stdout}")

    def test(self, tests: Sequence[str], limit: float | None = None) -> Verdict:
        """Runs the tests up to the first failure."""
        results = self.tree / "build/outcomes.json"
        results.parent.mkdir(exist_ok=True)
        results.unlink(missing_ok=True)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        pytest = subprocess.Popen(
            [self.python, *_PYTEST, *tests], cwd=self.tree, env=environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            status = pytest.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(pytest.pid, signal.SIGKILL)
            pytest.wait()
            return Verdict("limit of time")
        if not status:
            return Verdict("survived")
        failed = list(json.loads(results.read_text())["failed"]) if results.exists() else []
        return Verdict("killed", failed[0] if failed else f"pytest's status {status}")

    def judge(self, mutant: Mutant, limit: float | None = None) -> Verdict:
        """What becomes of a mutant."""
        with self.changed(mutant):
            return self.test(mutant.tests, limit)

    def check(self, mutants: Sequence[Mutant]) -> None:
        """Raises unless the list fits the tree, and the tests pass as they are."""
        if found := stale(mutants, self.tree):
            raise WrongList("\n".join(found))
        verdict = self.test(list(dict.fromkeys(test for mutant in mutants for test in mutant.tests)))
        if verdict.word != "survived":
            raise WrongList(f"without a mutant: {verdict.word} {verdict.by}")


HEAD = "| no. | file | what would be wrong | result | noticed by |\n| --: | --- | --- | --- | --- |"


def line(mutant: Mutant, verdict: Verdict) -> str:
    """A mutant's line of the table in Markdown."""
    by = f"`{verdict.by.removeprefix('tests/')}`" if verdict.by else ""
    file = mutant.file.removeprefix("pyio_trace/").removeprefix("csrc/")
    return f"| {mutant.number} | {file} | {mutant.breaks} | {verdict.word} | {by} |"


def summary(verdicts: Sequence[Verdict]) -> str:
    """How many were killed and how many survived."""
    words = Counter(verdict.word for verdict in verdicts)
    return f"{len(verdicts)} mutants: " + ", ".join(f"{number} {word}" for word, number in sorted(words.items()))
