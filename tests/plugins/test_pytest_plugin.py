"""The pytest plugin, in runs of pytest that users would start."""

from __future__ import annotations

import json
import re
import sys

import pytest

import pyio_trace
from tests.support.processors import busy
from tests.support.soak import rounds

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.once

#: Tests whose I/O is known: what each does to files of its tmp_path.
KNOWN = """
    import subprocess, sys, threading

    def test_parts(tmp_path):
        for n in range(10):
            (tmp_path / f"part{n}.h5").write_bytes(b"x" * 100)

    def test_mixed(tmp_path):
        (tmp_path / "given").write_bytes(b"x" * 5000)
        def read():
            with open(tmp_path / "given", "rb", buffering=0) as file:
                file.read(1000)
        thread = threading.Thread(target=read)
        thread.start()
        thread.join()
        code = "open('made', 'wb', buffering=0).write(b'x' * 300)"
        subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)

    def test_nothing():
        pass
"""
#: Tests that do what fingerprints must not depend on.
NOISY = """
    import logging, mimetypes, os, subprocess, sys, tempfile, warnings
    from pathlib import Path

    def test_output(capfd):
        print("words")
        os.write(1, b"more")
        assert capfd.readouterr().out == "words\\nmore"
        sys.stderr.write("others")

    def test_import(tmp_path, monkeypatch):
        (tmp_path / "fresh_module.py").write_text("VALUE = 3")
        monkeypatch.syspath_prepend(tmp_path)
        import fresh_module, wave
        assert fresh_module.VALUE == 3

    def test_traceback():
        try:
            1 / 0
        except ZeroDivisionError:
            logging.exception("as it should")

    def test_temporary_names():
        with tempfile.NamedTemporaryFile(suffix=".csv") as one, tempfile.TemporaryDirectory() as folder:
            one.write(b"1,2")
            (Path(folder) / "x.txt").write_text("1")

    def test_libraries():
        mimetypes.init()
        Path(os.__file__).read_bytes()
        Path(__import__("pytest").__file__).read_bytes()

    def test_child(tmp_path):
        code = "import wave, sys; open('out', 'w').write('1')"
        subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
"""


@pytest.fixture(autouse=True)
def few_plugins(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plugins of libraries that are installed for other tests would double the time of each of many runs."""
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:zarr -p no:anyio -p no:hypothesispytest")


def rows(result: pytest.RunResult) -> dict[str, list[str]]:
    """The table: its cells by the name of the test."""
    lines = [line for line in result.outlines if re.match(r" *\d+ +\d+ +\d+ ", line)]
    assert all(len(line) <= 80 for line in lines)
    return {line.split("::")[-1]: line.split() for line in lines}


def fingerprints(pytester: pytest.Pytester) -> dict[str, dict[str, dict[str, int]]]:
    """What --io-record wrote, by the name of the test."""
    text = (pytester.path / "tests" / "io_fingerprints.json").read_text()
    return {test.split("::")[-1]: files for test, files in json.loads(text)["tests"].items()}


# ---- the table and the log


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_table(pytester: pytest.Pytester, workers: tuple[str, ...]) -> None:
    # GIVEN tests that do known I/O, in threads and children too
    pytester.makepyfile(KNOWN)
    # WHEN they are run with the option, in one process or in two
    result = pytester.runpytest_subprocess("--pyio-trace", *workers)
    # THEN the table has what each did: opens, reads, writes, bytes
    table = rows(result)
    assert table["test_parts"][:7] == ["10", "0", "10", "0", "B", "1000", "B"]
    # opens: for write_bytes, of the thread, of the child; reads 1000 bytes, writes 5000 and 300
    assert table["test_mixed"][:7] == ["3", "1", "2", "1000", "B", "5.18", "KiB"]
    result.stdout.fnmatch_lines(["1 test without I/O"])
    assert result.ret == 0


def test_nothing_without_an_option(pytester: pytest.Pytester) -> None:
    # GIVEN a test beyond its limit, which looks at what was imported
    pytester.makepyfile("""
        import sys
        import pytest

        @pytest.mark.limit_io(opens=0)
        def test_inert():
            open(__file__).close()
            assert "pyio_trace_plugins.pytest" in sys.modules
            assert not [name for name in sys.modules if name.partition(".")[0] == "pyio_trace"]
            assert not [name for name in sys.modules if name.startswith("pyio_trace_plugins.pytest.")]
    """)
    # WHEN it is run without an option THEN the plugin is there, has imported nothing, and does nothing
    result = pytester.runpytest_subprocess("--strict-markers", "-W", "error")
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*I/O*")


def test_the_tests_see_no_reader(pytester: pytest.Pytester) -> None:
    # GIVEN a test with a limit that looks for imports, threads and children of its process
    pytester.makepyfile("""
        import os, sys, threading
        import pytest

        @pytest.mark.limit_io(opens=5)
        def test_first(): open(__file__).close()

        def test_second():
            assert not [name for name in sys.modules if name.startswith(("pyio_trace.log.", "pyio_trace.join"))]
            assert threading.active_count() == 1
            with pytest.raises(ChildProcessError):
                os.waitpid(-1, os.WNOHANG)
    """)
    # WHEN they are traced THEN reading the log has left none in it
    pytester.runpytest_subprocess("--pyio-trace").assert_outcomes(passed=2)


@pytest.mark.slow
def test_log_is_kept(pytester: pytest.Pytester) -> None:
    # GIVEN the tests, and names of logs
    pytester.makepyfile(KNOWN)
    # WHEN they are run in one process and in two
    pytester.runpytest_subprocess("--pyio-trace=one.parquet").stdout.fnmatch_lines(["log: *one.parquet"])
    pytester.runpytest_subprocess("--pyio-trace=two.pyio", "-n", "2").stdout.fnmatch_lines(["log: *two-gw?.pyio"] * 2)
    # THEN each process that ran tests has left its log, with a span for each phase and nothing amiss
    assert sorted(path.name for path in pytester.path.glob("*.p*o*")) == ["two-gw0.pyio", "two-gw1.pyio"]
    for names in (["one.parquet"], ["two-gw0.pyio", "two-gw1.pyio"]):
        logs = [pyio_trace.open(pytester.path / name) for name in names]
        spans = [row for log in logs for row in log.operations(["op", "detail"]).to_pylist() if row["op"] == "test"]
        phases = [
            (json.loads(row["detail"])["name"].split("::")[1], json.loads(row["detail"])["phase"]) for row in spans
        ]
        tests = ("test_nothing", "test_parts", "test_mixed")
        assert sorted(phases) == sorted((test, phase) for test in tests for phase in ("setup", "call", "teardown"))
        assert [log.losses() for log in logs] == [{}] * len(logs)


@pytest.mark.slow
def test_already_traced(pytester: pytest.Pytester) -> None:
    # GIVEN the tests
    pytester.makepyfile(KNOWN)
    words = [sys.executable, "-m", "pyio_trace", "-q", "-o", "run.pyio", "-m", "pytest", "-W", "error", "--pyio-trace"]
    # WHEN pytest is traced itself, in one process and with workers in the same log
    for more in ([], ["-n", "2"]):
        result = pytester.run(*words, *more)
        # THEN the figures are the same, from that log, and one line says so
        assert rows(result)["test_parts"][:7] == ["10", "0", "10", "0", "B", "1000", "B"]
        assert rows(result)["test_mixed"][:7] == ["3", "1", "2", "1000", "B", "5.18", "KiB"]
        assert len([line for line in result.outlines if "was traced already" in line]) == 1
        assert result.ret == 0
        (pytester.path / "run.pyio").unlink()


def test_worker_that_crashes(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN a test that ends its process
    pytester.makepyfile(KNOWN, test_end="import os\ndef test_end(): os._exit(3)")
    temporary = pytester.mkdir("temporary")
    monkeypatch.setenv("TMPDIR", str(temporary))
    # WHEN xdist replaces the worker THEN a line says whose tests are missing, and no log is left
    result = pytester.runpytest_subprocess("--pyio-trace", "-n", "1")
    result.stdout.fnmatch_lines(["pyio-trace: the worker gw? ended early: *"])
    assert list(temporary.iterdir()) == []


# ---- limits


def test_limit(pytester: pytest.Pytester) -> None:
    # GIVEN tests within and beyond limits
    pytester.makepyfile(
        test_limits="""
        import pytest

        @pytest.mark.limit_io(opens=3, bytes_written="1K", under="tmp_path")
        def test_beyond(tmp_path):
            for n in range(10):
                (tmp_path / f"part{n}.h5").write_bytes(b"x" * 200)
            (tmp_path / "other").touch()

        @pytest.mark.limit_io(opens=10, writes=10, reads=0, metadata=20, bytes_written=2000)
        def test_within(tmp_path):
            for n in range(10):
                (tmp_path / f"part{n}").write_bytes(b"x" * 200)

        @pytest.mark.limit_io(opens=0, under="*.csv")
        def test_elsewhere(tmp_path):
            (tmp_path / "part").touch()

        @pytest.mark.limit_io(open=1)
        def test_wrong(): pass
    """
    )
    # WHEN they are run, in one process or two
    for workers in ((), ("-n", "2")):
        result = pytester.runpytest_subprocess("--pyio-trace", *workers)
        # THEN those beyond fail, with counts, files and lines
        result.assert_outcomes(passed=2, failed=2)
        result.stdout.fnmatch_lines([
            "limit_io: 11 opens under tmp_path, and 3 are allowed",
            "         10  {tmp}/part[*].h5 (10 files)  test_limits.py:6:test_beyond",
            "          1  {tmp}/other  test_limits.py:7:test_beyond",
            "limit_io: 2,000 bytes written under tmp_path, and 1,024 are allowed",
        ])  # fmt: skip
        assert result.outlines.count("limit_io cannot limit 'open'; did you mean opens?") == 1
        assert "During handling" not in result.stdout.str()


def test_time_of_fixtures_is_not_limited(pytester: pytest.Pytester) -> None:
    # GIVEN a fixture that opens files before and after the call
    pytester.makepyfile("""
        import pytest

        @pytest.fixture
        def data(tmp_path):
            (tmp_path / "x").write_text("1")
            yield tmp_path
            (tmp_path / "y").write_text("1")

        @pytest.mark.limit_io(opens=0, metadata=1)
        def test_call(data): assert (data / "x").exists()
    """)
    # WHEN the test is run THEN its limit is about its call, and the table has all
    result = pytester.runpytest_subprocess("--pyio-trace")
    result.assert_outcomes(passed=1)
    assert rows(result)["test_call"][:3] == ["2", "0", "2"]


# ---- fingerprints


@pytest.mark.slow
def test_record_and_check(pytester: pytest.Pytester) -> None:
    # GIVEN recorded tests
    source = pytester.makepyfile(KNOWN)
    pytester.runpytest_subprocess("--io-record").stdout.fnmatch_lines(["I/O fingerprints of 3 tests: *"])
    assert fingerprints(pytester) == {
        "test_parts": {"{tmp}/part*.h5": {"opens": 10, "writes": 10, "bytes_written": 1000}},
        "test_mixed": {
            "{tmp}/given": {"opens": 2, "reads": 1, "writes": 1, "bytes_read": 1000, "bytes_written": 5000},
            "{tmp}/made": {"opens": 1, "writes": 1, "bytes_written": 300},
        },
    }
    recorded = (pytester.path / "tests" / "io_fingerprints.json").read_bytes()
    # WHEN they are checked, and recorded again by two processes THEN nothing has changed
    result = pytester.runpytest_subprocess("--io-check", "-n", "2")
    result.stdout.fnmatch_lines(["I/O as recorded in 3 tests"])
    assert result.ret == 0
    pytester.runpytest_subprocess("--io-record", "-n", "2")
    assert (pytester.path / "tests" / "io_fingerprints.json").read_bytes() == recorded
    # WHEN one open is added THEN the check fails, and says what changed
    source.write_text(
        source.read_text().replace("range(10):", "range(10):\n        open(tmp_path / 'new', 'w').close()", 1)
    )
    for workers in ((), ("-n", "2")):
        result = pytester.runpytest_subprocess("--io-check", *workers)
        assert result.ret == 1
        result.assert_outcomes(passed=3)
        result.stdout.fnmatch_lines(
            ["*::test_parts: changed", "    {tmp}/new: opens 0 -> 10", "1 test does other I/O *"]
        )
    # WHEN only one test is recorded anew THEN the others stay, and the check passes
    pytester.runpytest_subprocess("--io-record", "-k", "parts")
    assert fingerprints(pytester).keys() == {"test_parts", "test_mixed"}
    assert pytester.runpytest_subprocess("--io-check").ret == 0


@pytest.mark.slow
def test_what_a_fingerprint_leaves_out(pytester: pytest.Pytester) -> None:
    # GIVEN tests that print, import, write .pyc files, format tracebacks, make random names and read libraries
    pytester.makepyfile(NOISY)
    # WHEN they are recorded
    pytester.runpytest_subprocess("--io-record").assert_outcomes(passed=6)
    # THEN only what they did to files of their own is there
    one = {"opens": 1, "writes": 1, "bytes_written": 1}
    assert fingerprints(pytester) == {
        "test_import": {"{tmp}/fresh_module.py": one | {"bytes_written": 9}},
        "test_temporary_names": {
            "{tempdir}/*": {"opens": 1},  # removing the folder lists it
            "{tempdir}/*.csv": one | {"bytes_written": 3},
            "{tempdir}/*/x.txt": one,
        },
        "test_child": {"{tmp}/out": one},
    }
    # WHEN they are checked in another order, with .pyc files now there, output not captured and in two processes
    names = ["test_child", "test_libraries", "test_temporary_names", "test_traceback", "test_import", "test_output"]
    module = next(pytester.path.glob("test_*.py")).name
    for options in (["-s"], ["-n", "2"], [f"{module}::{name}" for name in names], ["-p", "no:logging", "--lf"]):
        # THEN nothing has changed
        result = pytester.runpytest_subprocess("--io-check", *options)
        assert result.ret == 0, result.stdout.str()


def test_children_of_fixtures_and_children_that_outlive_the_call(pytester: pytest.Pytester) -> None:
    # GIVEN a child that a fixture starts and that writes during the call, and one of a call that writes in the teardown
    pytester.makepyfile("""
        import subprocess, sys
        import pytest

        PROGRAM = "import sys; sys.stdin.readline(); open(sys.argv[1], 'w').write('12')"

        def start(path):
            return subprocess.Popen([sys.executable, "-c", PROGRAM, path], stdin=subprocess.PIPE)

        @pytest.fixture
        def served(tmp_path):
            yield start(tmp_path / "served")

        def test_served(served):
            served.communicate(b"go\\n")

        @pytest.fixture
        def children():
            started = []
            yield started
            for child in started:
                child.communicate(b"go\\n")

        def test_late(children, tmp_path):
            children.append(start(tmp_path / "late"))
    """)
    # WHEN they are recorded THEN each has what its child wrote
    pytester.runpytest_subprocess("--io-record").assert_outcomes(passed=2)
    wrote = {"opens": 1, "writes": 1, "bytes_written": 2}
    assert fingerprints(pytester) == {"test_served": {"{tmp}/served": wrote}, "test_late": {"{tmp}/late": wrote}}


def test_ignored_files(pytester: pytest.Pytester) -> None:
    # GIVEN a pattern of files to leave out, and a place for the fingerprints
    pytester.makeini("[pytest]\nio_fingerprints = io.json\nio_fingerprints_ignore = *.h5\n  *.log\n")
    pytester.makepyfile(KNOWN)
    # WHEN the tests are recorded THEN it is there without those files
    pytester.runpytest_subprocess("--io-record")
    recorded = json.loads((pytester.path / "io.json").read_text())
    assert [test.split("::")[1] for test in recorded["tests"]] == ["test_mixed"]


def test_failed_tests_are_not_recorded(pytester: pytest.Pytester) -> None:
    # GIVEN a test that fails after it has written
    pytester.makepyfile("def test_fails(tmp_path):\n    (tmp_path / 'x').write_text('1')\n    assert False")
    # WHEN it is recorded THEN there is nothing to compare with
    pytester.runpytest_subprocess("--io-record").assert_outcomes(failed=1)
    assert fingerprints(pytester) == {}


# ---- mistakes


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--pyio-trace", "test_one.py"], "*'test_one.py' is no name of a log*put it before the option*"),
        (["--io-record", "--io-check"], "*--io-record and --io-check: give one of them"),
        (["--io-check"], "*io_fingerprints.json is not a file of I/O fingerprints; remove it and run --io-record*"),
        (["--io-check", "-n", "2"], "*io_fingerprints.json is not a file of I/O fingerprints*"),
    ],
)
def test_mistakes(pytester: pytest.Pytester, words: list[str], message: str) -> None:
    # GIVEN a damaged file of fingerprints
    pytester.makepyfile(test_one="def test_one(): pass")
    (pytester.path / "tests").mkdir()
    (pytester.path / "tests" / "io_fingerprints.json").write_text('{"format": 1, "tests": {"x": [3]}}')
    # WHEN pytest is started with a mistake THEN one line says what to do, and no test is run
    result = pytester.runpytest_subprocess(*words)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert [line for line in result.errlines if "rror" in line and re.search("INTERNAL|Traceback", line)] == []
    result.stderr.fnmatch_lines([message])


@pytest.mark.slow
def test_a_log_without_room(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN recorded tests, and room for a part of their log
    pytester.makepyfile("""
        import pytest

        @pytest.mark.parametrize("n", range(20))
        def test_many(tmp_path, n):
            for m in range(2000):
                (tmp_path / f"{m}").touch()
    """)
    monkeypatch.setenv("PYIO_TRACE_MAX_LOG_SIZE", "1M")
    # WHEN they are checked THEN a line says what is missing, and the check fails
    result = pytester.runpytest_subprocess("--io-check")
    result.stdout.fnmatch_lines(["pyio-trace: * operations did not fit into the log *"])
    assert result.ret == 1


def test_a_log_that_cannot_be_written(pytester: pytest.Pytester) -> None:
    # GIVEN a test, and a place where no file can be
    pytester.makepyfile("def test_one(): pass")
    # WHEN the log is to go there THEN the tests run, and one line says why there are no figures
    result = pytester.runpytest_subprocess("--pyio-trace=/proc/run.parquet")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["pyio-trace: the log '/proc/run.pyio' cannot be written: *"])
    # WHEN fingerprints are checked as well THEN the run fails
    assert pytester.runpytest_subprocess("--pyio-trace=/proc/run.parquet", "--io-check").ret == 1


def test_fingerprints_that_cannot_be_written(pytester: pytest.Pytester) -> None:
    # GIVEN a file where the folder of the fingerprints should be
    pytester.makepyfile("def test_one(): pass")
    (pytester.path / "tests").touch()
    # WHEN tests are recorded THEN one line says that it is not possible, and the run fails
    result = pytester.runpytest_subprocess("--io-record")
    assert result.ret in (pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.USAGE_ERROR)
    assert "Traceback" not in result.stdout.str() + result.stderr.str()
    (line,) = [line for line in result.outlines + result.errlines if "cannot be" in line]
    assert "io_fingerprints.json" in line


def test_a_run_in_profile_mode(pytester: pytest.Pytester) -> None:
    # GIVEN pytest traced in another mode WHEN the option is given THEN one line says why it is not possible
    pytester.makepyfile("def test_one(): pass")
    words = ["-m", "pyio_trace", "-q", "--mode", "profile", "-o", "run.pyio", "-m", "pytest", "--pyio-trace"]
    result = pytester.run(sys.executable, *words)
    result.stderr.fnmatch_lines(["*pytest is traced in mode profile; it needs mode trace"])
    assert result.ret == pytest.ExitCode.USAGE_ERROR


# ---- many runs


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.timeout(1500)
def test_many_runs_under_load(pytester: pytest.Pytester) -> None:
    # GIVEN recorded tests, and two programs that keep the processors busy
    pytester.makepyfile(test_known=KNOWN, test_noisy=NOISY)
    pytester.runpytest_subprocess("--io-record")
    with busy(2):
        # WHEN they are checked again and again by two workers THEN no run sees a change
        outcomes = [pytester.runpytest_subprocess("--io-check", "-n", "2") for _ in range(rounds(3, 50))]
        assert [result.stdout.str() for result in outcomes if result.ret] == []
        # WHEN one test opens one file more THEN the check fails and names it
        known = pytester.path / "test_known.py"
        known.write_text(known.read_text().replace("test_nothing():", "test_nothing():\n    open(__file__).close()\n"))
        result = pytester.runpytest_subprocess("--io-check", "-n", "2")
        assert result.ret == 1
        result.stdout.fnmatch_lines(["*::test_nothing: nothing is recorded", "    test_known.py: opens 0 -> 1"])
