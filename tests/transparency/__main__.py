"""python -m tests.transparency [--write] [--python PATH ...] [--again] [MODULE ...]

Runs test modules untraced and traced and says what differs.  Results are kept
in the work folder, a JSON file for each interpreter and module; --write makes
docs/evidence/transparency.md of all that are there.  Without modules: those that have
no result yet for this commit (--again: all).  Exit status 1: something differs.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from pathlib import Path

from tests.transparency import environments, page, running, suites
from tests.transparency.environments import WORK, Environment


def main(words: list[str]) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.transparency")
    parser.add_argument("modules", nargs="*", help="such as test_io or h5py.tests; default: all")
    parser.add_argument("--python", action="append", type=Path, help="an interpreter; default: all of pyenv's")
    parser.add_argument("--write", action="store_true", help="write docs/evidence/transparency.md")
    parser.add_argument("--again", action="store_true", help="also what has a result of this commit")
    parser.add_argument("--no-run", action="store_true", help="only write the page, of the results that are there")
    chosen = parser.parse_args(words)
    differs = False
    for python in [] if chosen.no_run else chosen.python or environments.known_interpreters():
        environment = environments.prepare(python)
        for module in _wanted(environment, chosen.modules):
            differs |= _one(environment, module, again=chosen.again or bool(chosen.modules))
            if chosen.write:
                page.write()
    if chosen.write:
        page.write()
    return int(differs)


def _wanted(environment: Environment, names: list[str]) -> list[suites.Module]:
    found, absent = suites.modules_for(environment.standard_library)
    path = WORK / "results" / environment.version / "modules.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([[module.name for module in found], absent]))
    if not names:
        return found
    return [module for module in found if module.name in names]


def _one(environment: Environment, module: suites.Module, *, again: bool) -> bool:
    """One module, unless there is a result; whether something differs."""
    path = WORK / "results" / environment.version / f"{module.name}.json"
    if path.exists() and not again:
        before = page.Result.load(path)
        if before.commit == environment.commit:
            return bool(before.unexplained)
    result = page.Result(module.name, environment.commit, *running.compare(environment, module))
    result.save(path)
    print(environment.version, result.line(), flush=True)
    for difference in result.differences:
        print("   ", difference, flush=True)
    return bool(result.unexplained)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # by way of the finally that ends the tests
    sys.exit(main(sys.argv[1:]))
