"""The interpreters that the tests run on: a virtual environment for each, with this tree's package built by it.

All is kept in the work folder (build/transparency, or $PYIO_TRANSPARENCY_WORK), so that a second run is quick.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORK = Path(os.environ.get("PYIO_TRANSPARENCY_WORK", ROOT / "build" / "transparency"))

_NEEDED = ["scikit-build-core>=0.10", "cmake", "ninja", "numpy", "pyarrow", "rich"]
_TESTED = ["pytest>=8", "pytest-timeout", "hypothesis", "h5py", "pandas"]


@dataclass(frozen=True)
class Environment:
    """An interpreter with the package in it.  commit: of the package's source, `+` when the tree had changes."""

    python: Path
    version: str
    commit: str

    @property
    def standard_library(self) -> Path:
        """Where its `test` package is, if it ships one."""
        return Path(_ask(self.python, "import sysconfig; print(sysconfig.get_path('stdlib'))"))


def known_interpreters() -> list[Path]:
    """The Pythons of this machine that the package supports: pyenv's, else the running one."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [path / "bin" / "python" for path in sorted(pyenv.glob("3.*")) if _minor(path.name) >= 11]
    return found or [Path(sys.executable)]


def _minor(version: str) -> int:
    return int(version.split(".")[1])


def running() -> Environment:
    """This interpreter, as it is: the package must be installed in it."""
    return Environment(Path(sys.executable), "{}.{}.{}".format(*sys.version_info), commit())


def prepare(python: Path) -> Environment:
    """A virtual environment of that interpreter with the package of this tree, built now."""
    version = _ask(python, "import platform; print(platform.python_version())")
    folder = WORK / f"venv-{version}"
    inside = folder / "bin" / "python"
    if not inside.exists():
        subprocess.run([python, "-m", "venv", folder], check=True)
        _pip(inside, "install", *_NEEDED, *_TESTED)
    _pip(inside, "install", "--no-build-isolation", "--no-deps", "--force-reinstall", "-C", "install.strip=false",
         "-C", f"build-dir={WORK / f'build-{version}'}", str(ROOT))  # fmt: skip
    return Environment(inside, version, commit())


def _pip(python: Path, *words: str) -> None:
    subprocess.run([python, "-m", "pip", "-q", "--disable-pip-version-check", *words], check=True)


def _ask(python: Path, code: str) -> str:
    told = subprocess.run([python, "-I", "-c", code], check=True, capture_output=True, text=True, cwd="/")
    return told.stdout.strip()


def commit() -> str:
    """The last commit that changed the package; `+` where the tree has changes since."""
    if shutil.which("git") is None:
        return "no-git"

    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True).stdout.strip()

    package = ("--", "csrc", "pyio_trace", "CMakeLists.txt")
    changed = git("status", "--porcelain", *package)
    return (git("log", "-1", "--format=%h", *package) or "no-git") + ("+" if changed else "")


#: What newer tests expect of test.support.
_OLDER_SUPPORT = """
from test import support
if not hasattr(support, "Py_GIL_DISABLED"):
    support.Py_GIL_DISABLED = False
    support.check_sanitizer = lambda **kinds: False
    support.skip_if_sanitizer = lambda reason="", **kinds: lambda test: test
"""


def stand_ins() -> Path:
    """Test modules that some builds of CPython leave out, though what they are made of is there.

    multiprocessing's tests are three lines each around test._test_multiprocessing.  concurrent.futures' are those of
    an interpreter here that has them, whatever its version: they are the same for both sides.
    """
    folder = WORK / "stand-ins"
    folder.mkdir(parents=True, exist_ok=True)
    for method in ("fork", "spawn", "forkserver"):
        (folder / f"test_mp_{method}.py").write_text(
            "from test._test_multiprocessing import install_tests_in_module_dict\n"
            f'install_tests_in_module_dict(globals(), "{method}")\n'
        )
    for python in reversed(known_interpreters()):
        theirs = Path(_ask(python, "import sysconfig; print(sysconfig.get_path('stdlib'))")) / "test"
        if (theirs / "test_concurrent_futures").is_dir():
            shutil.copytree(theirs / "test_concurrent_futures", folder / "test_futures", dirs_exist_ok=True,
                            ignore=shutil.ignore_patterns("__pycache__"))  # fmt: skip
            (folder / "test_futures" / "conftest.py").write_text(_OLDER_SUPPORT)
            break
    return folder
