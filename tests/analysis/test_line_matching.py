"""Lines of two versions of a source, and patterns of files of two runs."""

from __future__ import annotations

from pyio_trace.analysis.calls.line_matching import match_lines, parse_site
from pyio_trace.analysis.compare.comparison import common_patterns, time_differs

READ, OPEN, STAT = frozenset({"read"}), frozenset({"open", "fstat"}), frozenset({"stat"})


def test_sites() -> None:
    assert parse_site("/d/a.py:12:main", None) == ("/d/a.py", 12, "main")
    assert parse_site("/d/a.py:12:main", "/d") == ("./a.py", 12, "main")
    assert parse_site("/data/a.py:12:main", "/d") == ("/data/a.py", 12, "main")
    assert parse_site("odd", None) == ("odd", 0, "")
    assert parse_site("a:x:b", None)[1] == parse_site("a:99999999999999999999:b", None)[1] == 0


def test_lines_with_the_same_numbers_are_the_same() -> None:
    # whatever they did
    before, after = {("a.py", 1, "f"): READ, ("a.py", 2, "f"): OPEN}, {("a.py", 1, "f"): STAT, ("a.py", 2, "f"): READ}
    assert match_lines(before, after) == {site: site for site in before}


def test_lines_that_have_moved_are_aligned() -> None:
    before = {("a.py", 5, "f"): OPEN, ("a.py", 6, "f"): READ, ("a.py", 9, "g"): READ}
    after = {("a.py", 6, "f"): STAT, ("a.py", 7, "f"): OPEN, ("a.py", 8, "f"): READ, ("a.py", 30, "g"): READ}
    assert match_lines(before, after) == {
        ("a.py", 5, "f"): ("a.py", 7, "f"),
        ("a.py", 6, "f"): ("a.py", 8, "f"),
        ("a.py", 9, "g"): ("a.py", 30, "g"),
    }


def test_lines_whose_operations_changed() -> None:
    # GIVEN a line that opens, and now also reads; and one that does something else altogether
    before = {("a.py", 5, "f"): OPEN, ("a.py", 6, "f"): STAT}
    after = {("a.py", 7, "f"): OPEN | READ, ("a.py", 8, "f"): READ}
    # THEN the first has an operation in common, and the second has not
    assert match_lines(before, after) == {("a.py", 5, "f"): ("a.py", 7, "f")}


def test_files_in_another_folder() -> None:
    before = {("/old/a.py", 5, "f"): OPEN, ("/old/x/b.py", 1, "f"): OPEN, ("/old/y/b.py", 1, "f"): OPEN}
    after = {("/new/a.py", 5, "f"): OPEN, ("/new/b.py", 1, "f"): OPEN}
    # two files were called b.py: which one is meant cannot be known
    assert match_lines(before, after) == {("/old/a.py", 5, "f"): ("/new/a.py", 5, "f")}


def test_a_function_of_very_many_lines() -> None:
    before = {("a.py", line, "f"): READ for line in range(1, 2_000)}
    after = {("a.py", line, "f"): READ for line in range(2, 2_001)}
    matched = match_lines(before, after)
    assert len(matched) == 1_998 and all(old == new for old, new in matched.items())


def test_patterns_are_the_same_for_all_runs() -> None:
    # names of files that differ in digits; one that there is once; folders that differ between the runs
    found = common_patterns([{"/d/a1", "/d/single7", "/out-17/a.csv", "/x1/p", "/x2/p"},
                             {"/d/a2", "/d/single7", "/out-18/a.csv", "/x1/p", "/x2/p"}])  # fmt: skip
    assert found == {
        "/d/a1": "/d/a*", "/d/a2": "/d/a*", "/d/single7": "/d/single7", "/out-17/a.csv": "/out-*/a.csv",
        "/out-18/a.csv": "/out-*/a.csv", "/x1/p": "/x1/p", "/x2/p": "/x2/p",
    }  # fmt: skip


def test_times_that_differ_by_noise() -> None:
    # GIVEN differences of 2 ms, 4 ms and 5 % THEN all are noise: two are too short, and one is too small a share
    ms = 1_000_000
    assert not any(time_differs(*pair) for pair in ((ms, 3 * ms), (4 * ms, 0), (1000 * ms, 1050 * ms)))
    assert time_differs(100 * ms, 120 * ms) and time_differs(120 * ms, 100 * ms)
