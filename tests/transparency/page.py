"""docs/evidence/transparency.md, from the results in the work folder."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.transparency.environments import ROOT, WORK
from tests.transparency.outcomes import WHOLE, Difference, Run
from tests.transparency.reasons import reason_for

PAGE = ROOT / "docs" / "evidence" / "transparency.md"

#: Losses that would be faults of the capture itself.  Children that are not followed are the tests' own doing
#: (an empty environment, python -S), and a log that was counted only has reached the limit of its size.
_FAULTS = ("torn", "tracer_faults", "unreadable")


@dataclass
class Result:
    """What was found for one module on one interpreter."""

    module: str
    commit: str
    untraced: Run
    traced: Run
    differences: list[Difference]

    @property
    def problems(self) -> list[str]:
        """Whatever keeps this from being the same with and without tracing, chance left out."""
        found = [str(difference) for difference in self.differences if difference.stable]
        found += [f"the tracer said: {line}" for line in self.traced.complaints]
        found += [f"the log: {name} {value}" for name, value in self.traced.losses.items() if name in _FAULTS]
        if not self.traced.operations:
            found.append("nothing was recorded")
        return found

    @property
    def unexplained(self) -> list[str]:
        """Problems without a known reason."""
        return [problem for problem in self.problems if reason_for(self.module, problem) is None]

    def line(self) -> str:
        """For the terminal."""
        word = "DIFFERS" if self.unexplained else "explained" if self.problems else "same"
        seconds = f"{self.untraced.seconds}/{self.traced.seconds} s"
        return f"{self.module}: {word} {_counts(self.untraced)} {seconds} {self.traced.operations} operations"

    def save(self, path: Path) -> None:
        """As JSON."""
        path.write_text(json.dumps(asdict(self), indent=1))

    @classmethod
    def load(cls, path: Path) -> Result:
        """The opposite of save."""
        stored = json.loads(path.read_text())
        return cls(
            stored["module"], stored["commit"], Run(**stored["untraced"]), Run(**stored["traced"]),
            [Difference(**difference) for difference in stored["differences"]],
        )  # fmt: skip


def results() -> dict[str, list[Result]]:
    """All that are in the work folder, by Python version, modules by name."""
    folders = sorted((WORK / "results").iterdir(), key=lambda path: [int(part) for part in path.name.split(".")])
    return {
        folder.name: [Result.load(path) for path in sorted(folder.glob("*.json")) if path.name != "modules.json"]
        for folder in folders
    }


def write() -> None:
    """The page."""
    PAGE.write_text("\n".join(_lines(results())) + "\n")


_INTRODUCTION = """\
# Transparency

Does a traced program notice? The tests of CPython and of four libraries answer that. Each module was run untraced
and traced (`PYIO_TRACE=1`, so the programs it starts are traced too), and the outcome of **every single test** was
compared: passed, failed with which exception, skipped with which reason, and what regrtest found changed in its own
interpreter afterwards (environment, files, threads, warnings). `python -m tests.transparency --write` writes this
page; part of it runs in CI.

- A test whose outcomes differ is run three more times each way. It counts as a difference if no outcome came up both
  ways, or if it crashed or hung only when traced. The others are listed at the end, with how often.
- A test that fails both ways must fail with the same exception. Most of those are pandas': its wheel ships the tests
  without their data files. The rest need a server or MPI, are for another kind of build, or do not expect root.
- *Operations* are the rows in the log of the traced run: the proof that it was traced.
- A line of the tracer on stderr, or an incomplete log, counts as a difference.
- regrtest's resources are `all,-network,-urlfetch,-gui,-audio,-cpu`. The 3.11 and 3.12 used here lack the small
  files that run multiprocessing's tests by each start method; the harness has its own. concurrent.futures' tests are
  those of 3.13.
- Two tests are left out because they also hang untraced: test_socket.ThreadedVSOCKSocketStreamTest and, on 3.11 and
  3.12, concurrent.futures' test_shutdown_deadlock_pickle. In the latter an executor can deadlock: its manager thread
  joins the feeder thread, which waits for a lock the manager holds. On 3.12.1, 8 of 288 untraced runs hung, and 1 of
  146 traced ones.
"""


def _lines(found: dict[str, list[Result]]) -> Iterator[str]:
    yield _INTRODUCTION
    yield from _summary(found)
    yield from _differences(found)
    for version, each in found.items():
        yield from _table(version, each)
    yield from _chance(found)


def _summary(found: dict[str, list[Result]]) -> Iterator[str]:
    yield "| Python | modules | tests | passed | failed | skipped | operations recorded | differences | unexplained |"
    yield "| --- | --: | --: | --: | --: | --: | --: | --: | --: |"
    for version, each in found.items():
        counts = sum((_classes(result.untraced) for result in each), Counter())
        operations = sum(result.traced.operations for result in each)
        problems = sum(len(result.problems) for result in each)
        unexplained = sum(len(result.unexplained) for result in each)
        cells = [len(each), counts.total(), counts["passed"], counts["failed"], counts["skipped"], operations, problems]
        yield f"| {version} | " + " | ".join(f"{cell:,}" for cell in cells) + f" | {unexplained:,} |"
    yield ""


def _differences(found: dict[str, list[Result]]) -> Iterator[str]:
    yield "## Differences\n"
    listed = False
    for version, each in found.items():
        for result in each:
            for problem in result.problems:
                listed = True
                reason = reason_for(result.module, problem) or "**not explained**"
                yield f"- {version} {result.module}: {_text(problem)}. {reason}"
    if not listed:
        yield "None."
    yield ""


def _table(version: str, each: Sequence[Result]) -> Iterator[str]:
    yield f"## Python {version}\n"
    commits = Counter(result.commit for result in each)
    yield "Commits: " + ", ".join(f"{commit} ({times} modules)" for commit, times in commits.most_common()) + ".\n"
    yield "Columns: tests; passed/failed/skipped untraced, then traced; operations in the log; differences.\n"
    yield "| module | tests | untraced | traced | operations | differences |"
    yield "| --- | --: | --- | --- | --: | --- |"
    for result in each:
        tests = _classes(result.untraced).total()
        note = "none" if not result.problems else str(len(result.problems))
        if not tests:
            note += f" ({_text(result.untraced.tests.get(WHOLE, '').removeprefix('status 0: '))})"
        yield (
            f"| {result.module} | {tests} | {_counts(result.untraced)} | {_counts(result.traced)} "
            f"| {result.traced.operations:,} | {note} |"
        )
    known, absent = json.loads((WORK / "results" / version / "modules.json").read_text())
    missing = sorted(set(known) - {result.module for result in each})
    if absent:
        yield f"\nNot shipped with this interpreter: {', '.join(absent)}."
    if missing:
        yield f"\nNot run with this interpreter yet: {'; '.join(missing)}."
    yield ""


def _chance(found: dict[str, list[Result]]) -> Iterator[str]:
    lines = [
        f"- {version} {result.module}: {_text(str(difference))}"
        for version, each in found.items()
        for result in each
        for difference in result.differences
        if not difference.stable
    ]
    if lines:
        yield "## Left to chance\n"
        yield "Outcomes that changed from run to run, with how often each was seen.\n"
        yield from lines


def _classes(run: Run) -> Counter[str]:
    """Tests as passed, failed or skipped, as regrtest and pytest call them all together."""
    words = {"error": "failed", "expected failure": "passed", "unexpected success": "failed"}
    counts: Counter[str] = Counter()
    for word, times in run.count().items():
        counts[words.get(word, word)] += times
    return counts


def _counts(run: Run) -> str:
    counts = _classes(run)
    return f"{counts['passed']}/{counts['failed']}/{counts['skipped']}"


def _text(words: str) -> str:
    return " ".join(words.split()).replace("|", "\\|").replace("<", "&lt;")
