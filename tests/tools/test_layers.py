"""The folders of csrc are layers, and a line that looks upwards is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import layers

LIST = "# bottom first\nlow   what everything needs\nhigh  what needs it\n"
LOW = '#include "low/low.h"\nint low_value = 1;\nint low_sum(int a, int b)\n{\n    return a + b;\n}\n'
HIGH = """#include "low/low.h"
static int twice(int a)
{
    return low_sum(a, a);
}
int high_twice(int a)
{
    return twice(a);
}
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Two folders, one on top of the other."""
    for folder in ("low", "high"):
        (tmp_path / folder).mkdir()
    (tmp_path / "layers.txt").write_text(LIST)
    (tmp_path / "low" / "low.h").write_text("int low_sum(int a, int b);\nextern int low_value;\n")
    (tmp_path / "low" / "low.c").write_text(LOW)
    (tmp_path / "high" / "high.h").write_text("int high_twice(int a);\n")
    (tmp_path / "high" / "high.c").write_text(HIGH)
    return tmp_path


def test_this_tree_has_layers() -> None:
    # GIVEN the sources WHEN they are read THEN no line looks upwards
    assert layers.breaches(layers.CSRC) == []


def test_folders_that_only_look_down_are_fine(tree: Path) -> None:
    assert layers.breaches(tree) == []


def test_include_of_a_higher_folder_is_found(tree: Path) -> None:
    # GIVEN a lower file that includes a higher header
    (tree / "low" / "low.c").write_text('#include "high/high.h"\n' + LOW)
    # WHEN the tree is read THEN the line is named
    (found,) = layers.breaches(tree)
    assert str(found) == f"{tree}/low/low.c:1: low includes high/high.h of high, which stands above it"


def test_call_without_an_include_is_found(tree: Path) -> None:
    # GIVEN a lower file that declares and calls a function of a higher one by itself
    (tree / "low" / "low.c").write_text(
        LOW + "int high_twice(int a);\nint low_four(void)\n{\n    return high_twice(2);\n}\n"
    )
    # WHEN the tree is read THEN the declaration and the call are named
    assert [(each.path.name, each.line) for each in layers.breaches(tree)] == [("low.c", 7), ("low.c", 10)]


def test_words_in_comments_and_strings_and_static_names_are_no_calls(tree: Path) -> None:
    # GIVEN a lower file that has the higher names in a comment and a string, and a function named as a static one
    text = LOW + '/* high_twice */\nconst char *low_text = "high_twice";\nstatic int twice;\n'
    (tree / "low" / "low.c").write_text(text)
    # WHEN the tree is read THEN there is nothing to name
    assert layers.breaches(tree) == []


def test_folder_without_a_layer_is_found(tree: Path) -> None:
    # GIVEN a folder that is not in the list
    (tree / "aside").mkdir()
    (tree / "aside" / "aside.c").write_text("int aside;\n")
    # WHEN the tree is read THEN its file is named
    assert [(each.path.name, each.what) for each in layers.breaches(tree)] == [
        ("aside.c", "its folder is not in layers.txt")
    ]
