"""Patterns of paths: what --include and --exclude match in C, --path matches in Python."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from pyio_trace.globs import path_matcher, stars_only
from pyio_trace.values import parse_path_pattern

TESTS = Path(__file__).parent
CORE = TESTS.parent / "csrc" / "core"
VECTORS = json.loads((TESTS / "support" / "globs.json").read_text())
CASES = [
    (pattern, path, matches)
    for pattern, lists in VECTORS.items()
    if pattern != "//"
    for matches, paths in zip((True, False), lists, strict=True)
    for path in paths
]


def test_python_matches_what_the_vectors_say() -> None:
    found = [(pattern, path, path_matcher(pattern)(path)) for pattern, path, _ in CASES]
    assert found == CASES


def test_c_matches_what_the_vectors_say(tmp_path: Path) -> None:
    # GIVEN the core's matcher in a program of its own
    compiler = shutil.which("cc") or pytest.skip("needs a C compiler")
    program = tmp_path / "globs"
    flags = ["-std=gnu11", "-fsanitize=undefined", "-fno-sanitize-recover", f"-I{CORE}"]
    sources = [str(TESTS / "csrc" / "globs.c"), str(CORE / "base" / "globs.c")]
    subprocess.run([compiler, *flags, *sources, "-o", str(program)], check=True)
    # WHEN it is asked THEN it answers as the vectors say
    lines = "".join(f"{pattern}\t{path}\n" for pattern, path, _ in CASES)
    done = subprocess.run([str(program)], input=lines, capture_output=True, text=True, check=True)
    answers = [answer == "1" for answer in done.stdout.split()]
    assert [(pattern, path, answer) for (pattern, path, _), answer in zip(CASES, answers, strict=True)] == CASES


def _matches(pattern: str, path: str, at: int = 0) -> bool:
    """Whether a pattern with a slash, from `at` on, matches all of a path.  Tries every place of a star; no sets."""
    if at == len(pattern):
        return not path
    if pattern.startswith("**/", at) and pattern[at - 1 : at] in ("", "/"):
        folders = [place + 1 for place, character in enumerate(path) if character == "/"]
        return any(_matches(pattern, path[place:], at + 3) for place in (0, *folders))
    if pattern[at] == "*":
        deep = pattern.startswith("**", at)
        end = len(path) if deep or "/" not in path else path.index("/")
        return any(_matches(pattern, path[place:], at + 1 + deep) for place in range(end + 1))
    same = path[:1] == pattern[at] or (pattern[at] == "?" and path[:1] not in ("", "/"))
    return same and _matches(pattern, path[1:], at + 1)


def test_patterns_match_what_trying_out_every_place_of_a_star_finds() -> None:
    # GIVEN patterns and paths of few characters, so that many match in part
    chance = random.Random(0)
    for _ in range(20_000):
        words = ["/**/" if chance.random() < 0.2 else chance.choice("aab/?**") for _ in range(chance.randrange(1, 9))]
        pattern = re.sub(r"/+", "/", "/" + "".join(words)).rstrip("/")
        path = "/" + "".join(chance.choice("aab/") for _ in range(chance.randrange(1, 12)))
        if not pattern or "***" in pattern:
            continue
        # WHEN matched THEN the answer is that of the simple way, for the path or a folder that it is in
        above = [path[:at] for at in range(1, len(path)) if path[at] == "/"]
        assert path_matcher(pattern)(path) == any(_matches(pattern, one) for one in (path, *above)), (pattern, path)


@pytest.mark.parametrize("pattern", ["*a" * 30 + "*b", "/d/" + "a*" * 30 + "b", "/**a" * 30 + "b", "**/a/" * 30 + "b"])
def test_no_pattern_takes_exponential_time(pattern: str) -> None:
    # GIVEN a pattern that a stranger wrote, and a path that it nearly matches
    path = "/d/" + "a" * 300 + "/a" * 300
    # WHEN it is compared THEN that ends
    assert not path_matcher(pattern)(path)
    assert not re.fullmatch(stars_only(pattern), path)


@pytest.mark.parametrize(
    ("word", "pattern"),
    [
        ("*.h5", "*.h5"), ("data", "data"), ("data/", "{here}/data/"), ("/x/y/", "/x/y/"), ("**/x", "**/x"),
        ("./data", "{here}/data"), ("sub/*.h5", "{here}/sub/*.h5"), ("sub/x/", "{here}/sub/x/"), (".", "{here}"),
        ("~/x", "{home}/x"), ("s3://bucket/*", "s3://bucket/*"),
    ],
)  # fmt: skip
def test_relative_patterns_start_in_the_current_folder(
    word: str, pattern: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/somebody")
    assert parse_path_pattern(word, "--path") == pattern.format(here=tmp_path, home="/home/somebody")
