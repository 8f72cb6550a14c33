"""The findings on a screen: three in 40 lines, the worst where people read, and commands that give the evidence."""

from __future__ import annotations

import os
import pty
import random
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pyio_trace.cli.main import main
from pyio_trace.insights.finding import Evidence, Finding, Query, Remedy, Site, Verified
from pyio_trace.insights.insights import Insights
from pyio_trace.report.findings_screen import MOST, View, findings_lines
from tests.insights.test_formats import HOSTILE
from tests.support.programs import Runner, succeeded

pytestmark = pytest.mark.once

#: A file name that a shell and SQL would both act on.
NAME = "a'b$HOME`id`\\c!.txt"
PROGRAM = f"""
import os
with open({NAME!r}, "w") as f:
    for n in range(50):
        f.write("record\\n")
        f.flush()
        os.fsync(f.fileno())
"""


def physical(lines: list[str]) -> int:
    return sum(max(-(-len(line) // 80), 1) for line in lines)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("best_last", [True, False])
def test_any_findings_fit_a_screen(seed: int, best_last: bool) -> None:
    # GIVEN findings with much to say: long titles, evidence, code, thousands of paths and of failed rules
    dice = random.Random(seed)

    def text(most: int) -> str:
        return dice.choice(("\n", " ")).join(
            dice.choice(("word", "x" * 90, "\x1b[31m")) for _ in range(dice.randrange(1, most))
        )

    def finding() -> Finding:
        remedy = Remedy(text(60), text(30), text(30)) if dice.random() < 0.9 else None
        return replace(
            HOSTILE, title=text(20), evidence=[Evidence(text(50)) for _ in range(dice.randrange(4))], remedy=remedy,
            files=[text(3)] * 5000, sites=[Site("/w/" + "long" * dice.randrange(30) + ".py", 3)] * 1000,
            verified=Verified("not tried", text(30)) if dice.random() < 0.5 else None,
        )  # fmt: skip

    given = Insights(
        [finding() for _ in range(dice.randrange(1, 9))], 3, {"a-rule": text(40), "b-rule": "x"},
        more={"x": 9}, unanswered=["loader-starved"] * 20,
    )  # fmt: skip
    lines = findings_lines(given, "/w", "run.parquet", View(best_last=best_last))
    # THEN they fit, and nothing is lost in silence
    assert physical(lines) <= MOST == 40
    assert all(line.isprintable() for line in lines)
    assert "--proof" in lines[-1] and any("a-rule" in line and "1 other rule" in line for line in lines)
    ranks = [line.split()[0] for line in lines if "stat-storm" in line]
    there = ["1", "2", "3"][: len(given.findings)]
    assert ranks == (there[::-1] if best_last else there)


def test_on_a_terminal_the_worst_is_last(program: Runner) -> None:
    # GIVEN two findings WHEN they are printed on a terminal, and into a pipe
    twice = PROGRAM + PROGRAM.replace("fsync", "fdatasync")
    log = succeeded(program.traced(twice)).path
    words = [sys.executable, "-P", "-m", "pyio_trace", "insights", log, "--rule", "sync-per-write"]
    ours, theirs = pty.openpty()
    with subprocess.Popen(words, stdout=theirs, env={**os.environ, "TERM": "xterm"}) as child:
        os.close(theirs)
        shown = b""
        while True:
            try:
                shown += (got := os.read(ours, 65536))
            except OSError:  # its end was closed
                break
            if not got:
                break
    os.close(ours)
    assert child.returncode == 0

    def ranks(text: str) -> list[str]:
        return [line.split()[0] for line in text.splitlines() if "sync-per-write" in line]

    # THEN they are in these orders
    assert ranks(shown.decode()) == ["2", "1"]
    assert ranks(subprocess.run(words, capture_output=True, text=True, check=True).stdout) == ["1", "2"]


def test_a_proof_can_be_pasted(program: Runner, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("duckdb")
    # GIVEN the log of a run whose names a shell would act on WHEN the proof of its finding is pasted into one
    log = succeeded(program.traced(PROGRAM)).path
    assert main(["insights", str(log), "--rule", "sync-per-write", "--proof"]) == 0
    text = capsys.readouterr().out
    command = text[text.index("pyio-trace sql ") :].partition("\n\n")[0]
    script = f'pyio-trace() {{ {shlex.quote(sys.executable)} -P -m pyio_trace "$@"; }}\n{command} --format json\n'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    # THEN it gives the evidence: 50 syncs
    assert done.returncode == 0, done.stderr
    assert '"op": "fsync"' in done.stdout and '"calls": 50' in done.stdout, done.stdout


@pytest.mark.parametrize("text", ["SELECT 'a$b`c\\d!e\"f'", "SELECT 'plain'", "SELECT 'it''s'"])
def test_a_shell_leaves_a_query_as_it_is(text: str) -> None:
    finding = replace(HOSTILE, query=Query(text + "\nFROM operations"))
    lines = findings_lines(Insights([finding]), "", "my log.parquet", View(proof=True))
    at = next(at for at, line in enumerate(lines) if line.startswith("pyio-trace sql "))
    done = subprocess.run(
        ["bash", "-c", 'pyio-trace() { printf "%s|" "$@"; }\n' + "\n".join(lines[at : at + 2])],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == f"sql|my log.parquet|{text}\nFROM operations|"


def test_a_query_of_many_paths_is_not_printed() -> None:
    long = replace(HOSTILE, query=Query("SELECT 1\n" * 500))
    text = "\n".join(findings_lines(Insights([long]), "", "r.parquet", View(proof=True)))
    assert "a query of 501 lines: pyio-trace insights r.parquet --format json" in text and "SELECT" not in text


def test_the_list_of_rules_and_a_page_of_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyio_trace.insights.registry import found

    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[tool.pyio_trace.insights.stat-storm]\ncalls = 7\n")
    assert main(["insights", "--list"]) == 0
    *lines, legend = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(found()) and legend.startswith("* ")
    assert main(["insights", "--explain", "stat-storm"]) == 0
    page = capsys.readouterr().out
    assert page.startswith("stat-storm  (metadata)\n") and "calls = 7 (default " in page and "--verify" in page
    assert main(["insights", "--explain", "stat-strom"]) == 2
    assert "did you mean stat-storm?" in capsys.readouterr().err
    assert main(["insights"]) == 2
    assert "[bad-arguments]" in capsys.readouterr().err
