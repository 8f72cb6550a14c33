"""python -m tests.mutants LIST [--only N,N] [--limit SECONDS]: the tests against each mutant of a list.

Prints a table in Markdown.  Needs git, and CMake and Ninja for mutants in
csrc.  Exit status 1: some survived; 2: the list does not fit the tree, or the
tests fail without any mutant.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.mutants import runner


def main(words: list[str]) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("list", type=Path, help="tests/mutants/core.toml, for example")
    parser.add_argument("--only", metavar="N,N", help="the numbers of those to run")
    parser.add_argument("--limit", type=float, default=600, help="seconds for a mutant's tests (default: %(default)g)")
    chosen = parser.parse_args(words)
    mutants = runner.read(chosen.list)
    if chosen.only:
        numbers = {int(number) for number in chosen.only.split(",")}
        mutants = [mutant for mutant in mutants if mutant.number in numbers]
    verdicts = []
    try:
        with tempfile.TemporaryDirectory(prefix="mutants", ignore_cleanup_errors=True) as folder:
            workshop = runner.Workshop.set_up(Path(folder))
            workshop.check(mutants)
            print(runner.HEAD, flush=True)
            for mutant in mutants:
                verdicts.append(workshop.judge(mutant, chosen.limit))
                print(runner.line(mutant, verdicts[-1]), flush=True)
    except runner.WrongList as error:
        print(error, file=sys.stderr)
        return 2
    print(f"\n{runner.summary(verdicts)}")
    return int(any(verdict.word == "survived" for verdict in verdicts))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
