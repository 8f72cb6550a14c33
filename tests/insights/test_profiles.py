"""Findings of a profile, whose rows stand for several calls: they count calls, and say which rules got no answer."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pyio_trace.cli.main import main
from pyio_trace.insights import insights, registry
from pyio_trace.insights.finding import Finding
from tests.support.findings import without_times
from tests.support.programs import Outcome, Runner, succeeded

pytestmark = pytest.mark.once

#: Slug -> a program that makes the same calls at one line, again and again.
AGAIN = {
    "whole-file-again": """
        import numpy
        numpy.save("data.npy", numpy.zeros(100_000))
        for n in range(60):
            row = numpy.load("data.npy")[n]
    """,
    "parse-bound": """
        import numpy
        numpy.savetxt("data.txt", numpy.zeros((20_000, 4)))
        for n in range(4):
            numpy.loadtxt("data.txt")
    """,
    "hdf5-flush-per-item": """
        import h5py
        with h5py.File("data.h5", "w") as file:
            data = file.create_dataset("data", (300,), "i8")
            for n in range(300):
                data[n] = n
                file.flush()
    """,
}
CHUNKS = """
import h5py
with h5py.File("cube.h5", "w") as file:
    file.create_dataset("cube", (200, 200, 20), "i2", chunks=(50, 50, 20), compression="gzip")[:] = 1
with h5py.File("cube.h5") as file:
    for n in range(20):
        file["cube"][:, :, n].sum()
"""


def found_in(outcome: Outcome) -> insights.Insights:
    return insights.find(succeeded(outcome).log, registry.found(), without_times())[1]


@pytest.mark.parametrize("slug", AGAIN)
def test_calls_are_counted(program: Runner, slug: str) -> None:
    if slug.startswith("hdf5"):
        pytest.importorskip("h5py")
    # GIVEN a program, traced and profiled WHEN findings are looked for
    said = []
    for mode in ("trace", "profile"):
        outcome = program.traced(AGAIN[slug], env={"PYIO_TRACE_MODE": mode})
        found: list[Finding] = [one for one in found_in(outcome).findings if one.slug == slug]
        # THEN both have the same number of calls, in the title and in the evidence
        counts = [
            {name: value for name, value in one.values.items() if name in ("loads", "calls", "flushes", "files")}
            for finding in found
            for one in finding.evidence
        ]
        titles = [re.sub(r"\d+%", "n%", finding.title) for finding in found]  # shares of time
        said.append((titles, counts))
    assert said[0] == said[1] and said[0][0] and any(said[0][1])


def test_rules_without_an_answer_are_said(program: Runner, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("h5py")
    # GIVEN a program with a finding that only each call shows
    texts = {}
    for mode in ("trace", "profile"):
        outcome = program.traced(CHUNKS, env={"PYIO_TRACE_MODE": mode}, log=f"{mode}.pyio")
        found = found_in(outcome)
        slugs = {one.slug for one in found.findings}
        # THEN in a trace no rule is left out; in a profile, those that say so of themselves and have no finding
        asking = {slug for slug, rule in registry.found().items() if rule.each_call}
        assert set(found.unanswered) == (asking - slugs if mode == "profile" else set())
        texts[mode] = {form: said_by(capfd, outcome.path, form) for form in ("text", "markdown", "json", "summary")}
    # AND every format says which
    for form, (out, err) in texts["profile"].items():
        assert ("hdf5-chunks-again" in out + err.replace("\n", " ")) == (form in ("markdown", "json")), form
        said = "Mode profile cannot answer" if form in ("text", "summary") else "for each operation"
        assert said in " ".join((out + err).split()), form
        assert said not in " ".join("".join(texts["trace"][form]).split()), form
    assert isinstance(json.loads(texts["profile"]["json"][0]), list)
    # AND of chosen rules, only these
    assert main(["insights", str(program.folder / "profile.pyio"), "--rule", "polling"]) == 0
    chosen = capfd.readouterr().out
    assert "\nMode profile cannot answer 1 rule: polling  (--list)\n" in chosen


def said_by(capfd: pytest.CaptureFixture[str], log: Path, form: str) -> tuple[str, str]:
    assert main(["summary", str(log)] if form == "summary" else ["insights", str(log), "--format", form]) == 0
    said = capfd.readouterr()
    return said.out, said.err
