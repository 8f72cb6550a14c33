"""The end of a trace() block raises nothing and restores everything, whatever the program has refused meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.capture.test_session import with_log
from tests.support.programs import Runner, succeeded

#: What a program does to itself inside a block that ends all the same.
TAKEN = {
    "imports and files, by an audit hook": "locked = True",
    "descriptors": "resource.setrlimit(resource.RLIMIT_NOFILE, (3, 64))",
    "the import path": "sys.path[:] = []; sys.path_importer_cache.clear(); sys.meta_path[:] = []",
}


@pytest.mark.parametrize("log", ["run.pyio", "run.parquet"])
@pytest.mark.parametrize("taken", TAKEN)
def test_what_the_end_needs_is_taken(program: Runner, tmp_path: Path, taken: str, log: str) -> None:
    # GIVEN a block in which nothing can be imported or opened any more
    text = f"""\
import os, resource, sys, pyio_trace
locked = False
def hook(event, arguments):
    if locked and (event in ("import", "open") or event.startswith("os.listdir")): raise PermissionError(event)
sys.addaudithook(hook)
before = dict(os.environ)
with pyio_trace.trace({log!r}) as run:
    os.mkdir("made")
    {TAKEN[taken]}
print({{**os.environ}} == before, pyio_trace.current_run(), os.path.basename(run.path))
"""
    # WHEN it ends THEN nothing is raised, the program is as it was, and the log is there
    outcome = succeeded(program.bare(text))
    assert outcome.stdout.startswith("True None run.")
    left = with_log(outcome, tmp_path / outcome.stdout.split()[-1])
    assert left.select(op="mkdir", path=tmp_path / "made")
    # AND one line says so where it could not be packed
    if left.path.name != log:
        line, end = outcome.stderr.split("\n")
        assert line.startswith("pyio-trace: ") and line.endswith(f"; the live log stays: {left.path}") and not end
    else:
        assert outcome.stderr == ""


@pytest.mark.parametrize("log", ["run.pyio", "run.parquet"])
def test_an_import_function_that_refuses(program: Runner, tmp_path: Path, log: str) -> None:
    # GIVEN a block that ends in a program whose imports are refused, also those of modules that are there
    text = f"""\
import builtins, os, pyio_trace
real, before = builtins.__import__, dict(os.environ)
def refuses(name, *rest, **named): raise ImportError("refused: " + name)
with pyio_trace.trace({log!r}) as run:
    os.mkdir("made")
    builtins.__import__ = refuses
builtins.__import__ = real
print({{**os.environ}} == before, pyio_trace.current_run(), os.path.basename(run.path))
"""
    # WHEN it ends THEN nothing is raised, the program is as it was, and the log is there
    outcome = succeeded(program.bare(text))
    assert outcome.stdout.startswith("True None run.")
    assert with_log(outcome, tmp_path / outcome.stdout.split()[-1]).select(op="mkdir", path=tmp_path / "made")


@pytest.mark.parametrize("replaced", ["", "os.environ = dict(os.environ)"])
def test_variables_that_the_program_must_not_touch(program: Runner, tmp_path: Path, replaced: str) -> None:
    # GIVEN a program that lets nobody change its environment, and perhaps puts another mapping in its place
    text = f"""\
import os, subprocess, sys, pyio_trace
seen, first = [], os.environ
def hook(event, arguments):
    if event in ("os.putenv", "os.unsetenv"):
        seen.append(event)
        raise PermissionError(event)
import pyarrow.parquet
sys.addaudithook(hook)
before = dict(os.environ)
with pyio_trace.trace("run.parquet", follow="all"):
    os.mkdir("made")
    {replaced}
names = subprocess.run(["env"], capture_output=True, text=True).stdout
print(seen, dict(first) == before, dict(os.environ) == before, "PYIO_TRACE" in names or "LD_PRELOAD" in names)
"""
    # WHEN it is run THEN no variable stays, and no event was ours
    assert succeeded(program.bare(text)).stdout == "[] True True False\n"


def test_an_end_that_ctrl_c_interrupts(program: Runner) -> None:
    # GIVEN a step of the end that Ctrl-C interrupts WHEN the block ends THEN it is raised, and all is as it was
    text = """\
import os, pyio_trace
from pyio_trace.capture.instrumentation import instrument_registry
before = dict(os.environ)
stop = instrument_registry.stop
def interrupted():
    instrument_registry.stop = stop
    stop()
    raise KeyboardInterrupt
try:
    with pyio_trace.trace("run.pyio"):
        instrument_registry.stop = interrupted
except KeyboardInterrupt:
    print({**os.environ} == before, pyio_trace.current_run())
"""
    assert succeeded(program.bare(text)).stdout == "True None\n"
