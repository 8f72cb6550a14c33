"""What holds for every rule, ours or not."""

from __future__ import annotations

from pathlib import Path

import pytest

import pyio_trace
from pyio_trace.insights import insights, registry
from pyio_trace.insights.settings import Settings
from tests.support.findings import check
from tests.support.programs import Runner, succeeded
from tests.support.smallrun import small_run
from tools import docs_pages

pytestmark = pytest.mark.once
RULES = registry.found(third_party=False)
PAGE = docs_pages.findings()


@pytest.mark.parametrize("slug", RULES)
def test_a_rule_is_documented(slug: str) -> None:
    # GIVEN a rule WHEN the page of all findings is made THEN it has its text and each of its thresholds
    rule = RULES[slug]
    section = PAGE.partition(f"\n### {slug}\n")[2].partition("\n### ")[0]
    assert rule.group and rule.doc and rule.doc.partition("\n")[0] in section
    for name, limit in rule.limits.items():
        assert f"| `{name}` |" in section and limit.default >= 0 and limit.meaning


def test_rules_of_a_small_run(tmp_path: Path) -> None:
    # GIVEN a run made by hand, with a killed process, calls in flight and unknown offsets
    log = pyio_trace.open(small_run(tmp_path / "run.pyio"))
    # WHEN every rule looks at it, with thresholds that all is above THEN none fails, and findings are sound
    for settings in (
        Settings(),
        Settings(limits={slug: dict.fromkeys(rule.limits, 0) for slug, rule in RULES.items()}),
    ):
        _, found = insights.find(log, RULES, settings)
        assert found.failed == {}
        for finding in found.findings:
            check(finding, log)


#: Empty files, an HDF5 file that one line closes only, a table without rows.
NOTHING = """
import os
for n in range(8):
    open(f"{n}.bin", "w").close()
    if not os.fork():
        with open(f"{n}.bin", "rb", buffering=0) as f: f.read()
        os._exit(0)
    os.wait()
try:
    import h5py, numpy
except ImportError:
    pass
else:
    file = h5py.File("x.h5", "w")
    file.attrs["a"] = 1
    file.create_dataset("empty", (0,))[:]
    file.close()
    numpy.savetxt("x.txt", numpy.zeros(0))
"""


def test_thresholds_that_are_zero(program: Runner) -> None:
    # GIVEN calls that move nothing WHEN every threshold is 0 THEN no rule divides by it
    outcome = succeeded(program.traced(NOTHING))
    limits = {slug: dict.fromkeys(rule.limits, 0) for slug, rule in RULES.items()}
    _, found = insights.find(outcome.log, RULES, Settings(limits=limits))
    assert found.failed == {}
    for finding in found.findings:
        check(finding, outcome.log)


def test_rules_of_an_empty_run(program: Runner) -> None:
    outcome = succeeded(program.traced("pass"))
    limits = {slug: dict.fromkeys(rule.limits, 0) for slug, rule in RULES.items()}
    _, found = insights.find(outcome.log, RULES, Settings(limits=limits))
    assert found.failed == {}
