"""Functions that are sent to other processes as code: their lines are those of the file in which they are written."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.programs import Runner, succeeded

TEXT = """\
import os, subprocess, sys
import cloudpickle

def look(name):
    os.stat(name)  # function

def maker():
    def inner(name):
        os.stat(name)  # inner
    return inner

class Looker:
    def look(self, name):
        os.stat(name)  # method

if __name__ == "__main__":
    jobs = [
        ("function", look),
        ("inner", maker()),
        ("method", Looker().look),
        ("lambda", lambda name: os.stat(name)),  # lambda
    ]
    for name, function in jobs:
        open(name, "w").close()
        for again in range(2):
            sent = cloudpickle.dumps(function)
        program = "import pickle, sys; pickle.load(sys.stdin.buffer)(sys.argv[1])"
        subprocess.run([sys.executable, "-c", program, os.path.abspath(name)], input=sent, check=True)
"""


def test_functions_that_cloudpickle_sends(program: Runner, tmp_path: Path) -> None:
    # GIVEN functions, a method and a lambda of the main program that other processes unpickle and call
    pytest.importorskip("cloudpickle", reason="cloudpickle's code objects are what is tried here")
    # WHEN it is run traced THEN their lines are those of the program, whichever process runs them
    outcome = succeeded(program.traced(TEXT))
    for name, function in (("function", "look"), ("inner", "maker.<locals>.inner"), ("method", "Looker.look"),
                           ("lambda", "<lambda>")):  # fmt: skip
        (row,) = outcome.select(op="stat", path=tmp_path / name)
        (line,) = [at for at, line in enumerate(TEXT.splitlines(), 1) if line.endswith(f"# {name}")]
        assert row["pid"] != outcome.pid
        file, number, found = row["site"].rsplit(":", 2)
        assert (Path(file).name, int(number), found) == ("program.py", line, function)
        assert "<dynamic-code>" not in row["call_stack"]
