"""`insights --verify` of remedies that change nothing, on real runs: it never says that they help."""

from __future__ import annotations

import importlib.util
import textwrap
from collections.abc import Callable
from dataclasses import replace

import pytest

from pyio_trace.insights import insights, registry, verify
from pyio_trace.insights.trials.attempt import Attempt
from pyio_trace.insights.trials.readers import Readings
from pyio_trace.insights.trials.replay import Replay
from tests.insights.test_fixed_points import CASES
from tests.support.findings import without_times
from tests.support.programs import Runner, succeeded

pytestmark = [pytest.mark.once, pytest.mark.slow, pytest.mark.usefixtures("own_time")]

#: Further programs: slug -> (its text, libraries).
MORE = {
    "reads in larger calls": ("small-accesses", "open('x', 'wb').write(bytes(1 << 20))\n"
                              "f = open('x', 'rb', buffering=0)\nfor n in range(4000): f.read(200)", ()),
    "writes in larger calls": ("small-accesses", "f = open('x', 'wb', buffering=0)\n"
                               "for n in range(4000): f.write(b'0123456789')", ()),
    "lines read again": ("read-again", "open('x', 'w').writelines(f'{n}\\n' for n in range(200_000))\n"
                         "for n in range(6):\n    with open('x') as f: list(f)", ()),
}  # fmt: skip
#: What costs nothing where all comes from memory, and is not tried.
FREE = ("here and there", "backward")
REJECTED = ("no gain", "harm", "not known")
PROGRAMS = {
    **{
        name: (case.slug, textwrap.dedent(case.make).strip() + "\n" + textwrap.dedent(case.ill).strip(), case.needs)
        for name, case in CASES.items()
        if registry.found(third_party=False)[case.slug].trial is not None and name not in FREE
    },
    **MORE,
}


def without_the_remedy(name: str) -> Callable[[Attempt], Replay | Readings]:
    """The trial of a rule, with what the program did in place of the remedy."""
    made = LOADED(name)

    def trial(attempt: Attempt) -> Replay | Readings:
        found = made(attempt)
        return replace(found, remedy=found.plain) if isinstance(found, Replay) else found

    return trial


LOADED = verify.loaded


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_placebo(program: Runner, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    slug, text, needs = PROGRAMS[name]
    if missing := [one for one in needs if importlib.util.find_spec(one) is None]:
        pytest.skip(f"without {', '.join(missing)}")
    # GIVEN the findings of a run, and remedies that do what the program did
    log = succeeded(program.traced(text)).log
    rules, settings = registry.found(third_party=False), without_times()
    summary, found = insights.find(log, rules, settings)
    wanted = [one for one in found.findings if one.slug == slug][:1]
    assert wanted
    monkeypatch.setattr(verify, "loaded", without_the_remedy)
    # WHEN they are tried THEN none is said to help: it is rejected, or it is said that nothing is known
    (finding,) = verify.verify(log, summary, insights.Insights(wanted), rules, settings, seconds=1).findings
    assert finding.verified is not None and finding.verified.outcome in REJECTED, finding.verified
    assert finding.recoverable.bound != "measured" or finding.recoverable_ns == 0


def test_there_are_twenty() -> None:
    assert len(PROGRAMS) >= 20
