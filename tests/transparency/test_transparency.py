"""A part of docs/evidence/transparency.md, with this interpreter; and that the harness sees what it is for."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.support.soak import SOAK
from tests.transparency import environments, outcomes, page, running, suites
from tests.transparency.outcomes import WHOLE
from tests.transparency.suites import Module

pytestmark = pytest.mark.once  # of the harness and its page

#: Those that see most of what tracing touches, in some seconds each.
_PART = [
    "test_fileio", "test_bufio", "test_file", "test_file_eintr", "test_fileinput", "test_largefile", "test_mmap",
    "test_os", "test_posix", "test_fcntl", "test_shutil", "test_tempfile", "test_glob", "test_gzip", "test_popen",
    "test_pty", "test_atexit", "test_sys_setprofile", "test_sys_settrace", "test_inspect", "test_import", "test_runpy",
    "test_site", "numpy._core.tests.test_memmap",
]  # fmt: skip
#: Those that see the same again, at length.
_REST = [
    "test_pathlib", "test_zipfile", "test_tarfile", "test_sqlite3", "test_pickle", "test_weakref", "test_traceback",
    "test_importlib", "pyarrow.tests.test_ipc", "h5py.tests",
]  # fmt: skip

_TELLS = """
import os, sys, unittest

class Tests(unittest.TestCase):
    def test_the_same(self):
        pass

    def test_fails_in_any_case(self):
        self.assertEqual(1, 2)

    def test_tells(self):
        if "PYIO_TRACE" in os.environ:
            raise OSError("traced")

    def test_skips_for_another_reason(self):
        raise unittest.SkipTest("traced" if "PYIO_TRACE" in os.environ else "not traced")

    def test_tells_in_a_part(self):
        for number in range(3):
            with self.subTest(number=number):
                self.assertFalse(number == 2 and "PYIO_TRACE" in os.environ)
"""
_DIES = """
import os, signal, unittest

class Tests(unittest.TestCase):
    def test_before(self):
        pass

    def test_dies(self):
        if "PYIO_TRACE" in os.environ:
            os.kill(os.getpid(), signal.SIGSEGV)
"""


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize("name", [*_PART, *(_REST if SOAK else [])])
def test_same_outcomes(name: str) -> None:
    """Every test of the module ends the same untraced and traced."""
    environment = environments.running()
    known, absent = suites.modules_for(environment.standard_library)
    if not (environment.standard_library / "test" / "libregrtest").is_dir() and name.startswith("test_"):
        pytest.skip("this interpreter ships no test package")
    if name in absent:
        pytest.skip("this interpreter does not ship it")
    if "." in name and importlib.util.find_spec(name.partition(".")[0]) is None:
        pytest.skip(f"{name.partition('.')[0]} is not installed")
    (module,) = [module for module in known if module.name == name]
    result = page.Result(name, environment.commit, *running.compare(environment, module))
    assert not result.unexplained, "\n".join(result.unexplained)


def _module_of(tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> Module:
    """A test module of regrtest's kind, in a folder of stand-ins of its own."""
    environment = environments.running()
    if not (environment.standard_library / "test" / "libregrtest").is_dir():
        pytest.skip("this interpreter ships no test package")
    (tmp_path / "test_of_ours.py").write_text(text)
    monkeypatch.setattr(running, "stand_ins", lambda: tmp_path)
    return Module("test_of_ours", "cpython", ("test_of_ours",), stand_in=True)


def test_a_difference_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests that look whether they are traced are told from those that fail anyway."""
    module = _module_of(tmp_path, _TELLS, monkeypatch)
    untraced, traced, differences = running.compare(environments.running(), module)
    found = {difference.test.rpartition(".")[2]: difference for difference in differences if difference.stable}
    assert {"test_tells", "test_skips_for_another_reason", "test_tells_in_a_part(number=#)"} & set(found) == {
        "test_tells", "test_skips_for_another_reason",
    } and any(name.startswith("test_tells_in_a_part") for name in found)  # fmt: skip
    assert found["test_tells"].traced == ["error: OSError"] * (1 + running.REPEATS)
    assert not {"test_the_same", "test_fails_in_any_case"} & set(found)
    assert untraced.tests["test_of_ours.Tests.test_fails_in_any_case"] == "failed: AssertionError"
    assert traced.operations > 0


def test_a_crash_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that dies has no report; its end is a difference, and so is the test that did not end."""
    module = _module_of(tmp_path, _DIES, monkeypatch)
    _, traced, differences = running.compare(environments.running(), module)
    assert traced.tests[WHOLE].startswith(("status -11", "status 139"))
    stable = {difference.test.rpartition(".")[2] for difference in differences if difference.stable}
    assert stable == {WHOLE, "test_dies"}


def test_chance_is_told_from_tracing() -> None:
    """What changes from run to run by itself is no difference; a crash under tracing always is."""
    assert not outcomes.Difference("t", ["passed"] * 4, ["failed", "passed", "passed", "passed"]).stable
    assert outcomes.Difference("t", ["passed"] * 4, ["failed"] * 4).stable
    assert outcomes.Difference(WHOLE, ["status 0"] * 4, ["status -11", "status 0", "status 0", "status 0"]).stable
