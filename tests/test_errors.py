"""Text that is safe to show, wherever it comes from."""

from __future__ import annotations

import sys
import textwrap
import unicodedata

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
        ("a\u061c\u200b\u2060\ufeff\xadb", "a\\u061c\\u200b\\u2060\\ufeff\\xadb"), ("\U000e0072", "\\U000e0072"),
        ("\u3164\uffa0\u115f\u034f", "\\u3164\\uffa0\\u115f\\u034f"), ("a\ufe0f\U000e0101", "a\\ufe0f\\U000e0101"),
        ("a\u00a0b\u3000", "a\\xa0b\\u3000"), ("\ufff9\u180b\u2800", "\\ufff9\\u180b\\u2800"),
    ],
)  # fmt: skip
def test_text_without_effects(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert not RAW.search(shown)


def test_no_invisible_character_is_left() -> None:
    # GIVEN each character that Unicode calls control, format or surrogate, separates lines, or lets a program ignore
    ignorable = {0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0, *range(0x180B, 0x1810)}
    ignorable |= {*range(0xFE00, 0xFE10), *range(0xFFF0, 0xFFFC), *range(0xE0000, 0xE1000)}
    unseen = [
        chr(code) for code in range(sys.maxunicode + 1)
        if code in ignorable or unicodedata.category(chr(code)) in ("Cc", "Cf", "Cs", "Zl", "Zp")
    ]  # fmt: skip
    # WHEN it is shown THEN it is escaped
    assert len(unseen) > 4000 and all(printable(f"a{one}b").isascii() for one in unseen)


def test_no_way_of_wrapping_makes_a_command() -> None:
    # GIVEN a name with commands in it WHEN it is wrapped at any width THEN no line is one
    name = printable("a ::error file=b,line=1::c ::stop-commands::d ##[group] e ::add-mask::f")
    for width in range(5, 80):
        assert not CI_COMMAND.search("\n".join(textwrap.wrap(name, width, break_long_words=False)))


def test_long_texts_take_linear_time() -> None:
    for text in ("::a " * 250_000, "##" + "a" * 1_000_000, "##a" * 300_000, "::" * 500_000, " ::" * 300_000):
        printable(text)
