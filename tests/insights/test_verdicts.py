"""Verdicts of lines without a finding, from samples of real programs: what such a line does."""

from __future__ import annotations

import pytest

from pyio_trace.insights import insights, registry
from pyio_trace.insights.settings import Settings
from tests.support.programs import Runner, succeeded

#: Each program repeats one line for a second, whatever the machine.
LOOP = "import os, re, socket, time\nend = time.monotonic() + 1\n{before}\nwhile time.monotonic() < end:\n    {line}\n"
PIPE = "a, b = os.pipe()"
PAIR = "a, b = socket.socketpair()"


@pytest.mark.slow
@pytest.mark.parametrize(("before", "line", "words"), [
    (PIPE, "for _ in range(1000): os.write(b, b'x'); os.read(a, 1)", "calls on pipes of 1 B: use blocks"),
    (PIPE, "for _ in range(1000): os.write(b, bytes(64)); os.read(a, 64)", "calls on pipes of 64 B: use blocks"),
    (PAIR, "for _ in range(1000): b.sendall(b'x'); a.recv(1)", "sends and receives: sockets are not recorded"),
    ("", "for _ in range(1000): pass", "computes in its own code: nothing to gain from I/O"),
    ("", "[re.purge() or re.compile('(a|b)*c[d-f]{2,9}') for _ in range(10)]", "computes in re.compile"),
    ("", "time.sleep(0.1)", "sleeps"),
])  # fmt: skip
def test_what_a_line_does(program: Runner, before: str, line: str, words: str) -> None:
    # GIVEN a program that spends its time at one line, without a file WHEN it is judged THEN the verdict says so
    outcome = succeeded(program.traced(LOOP.format(before=before, line=line)))
    found = insights.find(outcome.log, registry.found(third_party=False), Settings())[1]
    (verdict,) = [one for one in found.verdicts if one.site.line == 5]
    assert words in verdict.text
    assert "recorded" in words or ("use blocks" in words) == ("pipes" in verdict.text)
