"""Text that is safe to show, wherever it comes from."""

from __future__ import annotations

import textwrap

import pytest

from pyio_trace.errors import printable
from tests.fuzz.readings import CI_COMMAND, RAW

pytestmark = pytest.mark.once


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/d/a.h5", "/d/a.h5"), ("a\x1b[1m\n", "a\\x1b[1m\\n"), ("tests/test_a.py::test_b", "tests/test_a.py::test_b"),
        ("data[:, ::4]", "data[:, ::4]"), ("a::int", "a::int"), ("## heading", "## heading"), ("#[x]", "#[x]"),
        ("::error::a", "\\x3a:error::a"), ("  ::set-output name=a::b", "  \\x3a:set-output name=a::b"),
        ("\n::error::", "\\n::error::"), ("x ::error::", "x \\x3a:error::"), ("a##[group]", "a\\x23#[group]"),
        ("##vso[task.x]", "\\x23#vso[task.x]"), ("é ::error::\u2028", "é \\x3a:error::\\u2028"),
    ],
)  # fmt: skip
def test_text_without_effects(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert not RAW.search(shown)


def test_no_way_of_wrapping_makes_a_command() -> None:
    # GIVEN a name with commands in it WHEN it is wrapped at any width THEN no line is one
    name = printable("a ::error file=b,line=1::c ::stop-commands::d ##[group] e ::add-mask::f")
    for width in range(5, 80):
        assert not CI_COMMAND.search("\n".join(textwrap.wrap(name, width, break_long_words=False)))


def test_long_texts_take_linear_time() -> None:
    for text in ("::a " * 250_000, "##" + "a" * 1_000_000, "##a" * 300_000, "::" * 500_000, " ::" * 300_000):
        printable(text)
