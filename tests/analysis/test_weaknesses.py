"""What a run's figures lack, in words: a line for each loss, and nothing where nothing was lost."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from pyio_trace.analysis.results.figures import Mapped, Unseen, Weakness
from pyio_trace.analysis.summary.weaknesses import _NO_SAMPLER, weaknesses
from pyio_trace.analysis.typed_results import as_plain, schema
from pyio_trace.report.bars import Letters
from pyio_trace.report.overview_text import overview_lines
from tests.support.summaries import summary, unseen_lines

#: A loss as Log.losses() has it -> the lines that say so.
LOSSES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "nothing": ({}, []),
    "zero of each": (
        {
            "operations_counted_only": 0,
            "unfollowed": 0,
            "io_uring": 0,
            "torn": 0,
            "unseen_read": 0,
            "mapped_touched": 0,
        },
        [],
    ),
    "no more room for some": (
        {"operations_counted_only": 7, "reason": "no space left"},
        [
            "some processes got no more room in the log: no space left",
            "7 calls only counted: see `pyio-trace counters --unrecorded`",
        ],
    ),
    "one call only counted": (
        {"operations_counted_only": 1},
        ["1 call only counted: see `pyio-trace counters --unrecorded`"],
    ),
    "an impossible time": (
        {"operations_counted_only": 0, "since": 1 << 100, "reason": "a damaged log"},
        [
            "the log was full from an impossible time on: a damaged log; files and lines first met after that may "
            "have no name"
        ],
    ),
    "a child": ({"unfollowed": 1}, ["1 child was not followed"]),
    "children": (
        # five are named; one without a command is not
        {"unfollowed": 8, "unfollowed_children": [["a", "b"], [""], ["c"], ["d"], ["e"], ["f"], ["g"]]},
        [
            "8 children were not followed",
            "  not followed: a b",
            "  not followed: c",
            "  not followed: d",
            "  not followed: e",
        ],
    ),
    "blind spots": (
        {"io_uring": 1, "syscall": 2, "unpatched": 1, "no_file_objects": 3},
        [
            "1 process used io_uring or loaded liburing: what went through its rings is not in the log",
            "2 processes made raw system calls, which are not in the log",
            "1 process has code that could not be hooked; its calls are not in the log",
            "3 processes ran without file-object tracing: POSIX operations only",
        ],
    ),
    "what bypassed the hooks": (
        {"unseen_read": 2048, "unseen_written": 0},
        ["about 2 KiB read, 0 B written by system calls inside libc or without it"],
    ),
    "mappings": (
        {"mapped_touched": 4096, "mapped_at_least": 1024, "mapped_written": 512, "mappings_unmeasured": 1},
        [
            "up to 4 KiB touched through mapped files, at least 1 KiB; 512 B written (estimated from page tables)",
            "1 file mapping not measured: nothing is known of what went through",
        ],
    ),
    "renames": ({"renames_unseen": 2}, ["2 files were renamed by calls that were not seen (inferred)"]),
    "libraries": ({"raw_call_libraries": ["a.so"]}, ["1 library has system-call instructions: a.so"]),
    "many libraries": (
        {"raw_call_libraries": ["a.so", "b.so", "c.so", "d.so"]},
        ["4 libraries have system-call instructions: a.so, b.so, c.so ..."],
    ),
    "logs": (
        {"unreadable_logs": ["/l/a.pyio: no log"]},
        ["1 log of the folder could not be read", "  /l/a.pyio: no log"],
    ),
    "torn": ({"torn": 1024}, ["the log is damaged or cut short: 1 KiB of it could not be read"]),
    "ourselves": (
        {"tracer_faults": 1_000},
        ["pyio_trace itself failed 1,000 times and stepped aside; please report it"],
    ),
    "no sampler": (
        {"sampler_refused": ["ECHILD"], "unsampled": 2},
        [
            "not sampled: none could stay beside it; if process 1, `docker run --init`",
            "2 processes have no samples: between their calls nothing is known",
        ],
    ),
    "a sampler that was killed": (
        {"sampled_in_part": 1},
        ["the sampler ended early: the last part of 1 process has calls only"],
    ),
    "what a sampler counts": (
        {"samples_lost": 1_000, "sampler_unread": 1, "sampler_unseen": 2},
        [
            "1,000 samples lost: no room in the log; raise --max-log-size",
            "1 process could not be read by the sampler: processor time only",
            "2 processes and threads not sampled: too many at once",
        ],
    ),
    "no sampler for a reason of its own": (
        {"sampler_refused": ["E2BIG"]},
        ["not sampled: the sampler failed (E2BIG); see `pyio-trace doctor`"],
    ),
    "one that is not known here": ({"some_new_loss": 3}, ["some new loss: 3"]),
}


def lines_of(unseen: Unseen) -> list[str]:
    return unseen_lines(summary(weaknesses=weaknesses(unseen)))


@pytest.mark.parametrize("loss", LOSSES)
def test_each_loss_has_its_lines(loss: str) -> None:
    losses, lines = LOSSES[loss]
    assert lines_of(Unseen(losses, {}, [])) == lines


def test_when_the_log_was_full() -> None:
    moment = 1_700_000_000 * 10**9
    told = datetime.fromtimestamp(1_700_000_000).strftime("%H:%M:%S")  # of this machine's zone, as the line is
    (line, counted) = lines_of(Unseen({"operations_counted_only": 2, "since": moment, "reason": "full"}, {}, []))
    assert line == f"the log was full from {told} on: full; files and lines first met after that may have no name"
    assert counted.startswith("2 calls only counted")


def test_mapped_files_are_named_three_at_most() -> None:
    mapped = [Mapped(f"/d/{name}", 1, 2048, 1024, 0) for name in "abcd"]
    assert lines_of(Unseen({"mapped_touched": 8192}, {}, [], mapped))[1:] == [
        f"  /d/{name}: up to 2 KiB touched, at least 1 KiB; 0 B written (estimated; 1 mapping)" for name in "abc"
    ]


def test_the_losses_given_stay_as_they_are() -> None:
    losses = {"torn": 1, "unfollowed": 2}
    lines_of(Unseen(losses, {}, []))
    assert losses == {"torn": 1, "unfollowed": 2}


def test_children_that_were_not_followed_are_named() -> None:
    # GIVEN children of two commands, one of them run twice WHEN they are summed up THEN in one line, each command once
    losses = {"unfollowed": 3, "unfollowed_children": [["uname", "-p"], ["uname", "-p"], ["gzip", "x"]]}
    (found,) = weaknesses(Unseen(losses, {}, []))
    assert found.brief == "3 children were not followed: uname -p, gzip x"


@pytest.mark.parametrize("name", _NO_SAMPLER)
def test_why_there_was_no_sampler_fits_the_first_screen(name: str) -> None:
    (found,) = weaknesses(Unseen({"sampler_refused": [name]}, {}, []))
    assert found.slug == "sampler-refused" and found.brief == found.text
    assert f"  {found.text}" in "\n".join(overview_lines(summary(weaknesses=[found]), Letters())).splitlines()


def test_how_much_is_missing() -> None:
    # GIVEN a run of 900 calls in three processes, and what was lost WHEN it is weighed
    losses = {"operations_counted_only": 100, "unfollowed": 1, "io_uring": 1, "unseen_read": 1024, "torn": 5}
    found = weaknesses(Unseen(losses, {"tty": (1, 1)}, ["a note"]), calls=900, processes=3, moved=3072)
    # THEN each has its share, where one is known; operations that are missing make findings less sure
    assert [(one.slug, one.share, one.confidence) for one in found] == [
        ("only-counted", 0.1, 0.85), ("unfollowed-children", 0.25, 1), ("bypassed-bytes", 0.25, 1),
        ("io-uring", 1 / 3, 0.85), ("log-damaged", None, 0.85), ("by-choice", None, 1), ("note", None, 1),
    ]  # fmt: skip
    # AND a figure that nothing is known of has no share
    assert [one.share for one in weaknesses(Unseen(losses, {}, []))] == [None] * 5


def test_the_schema_describes_each_weakness() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    found = weaknesses(Unseen({"unfollowed": 1, "mapped_written": 9}, {"pipe": (1, 1)}, ["a note"]), processes=1)
    assert found
    for one in found:
        jsonschema.Draft202012Validator(schema(Weakness)).validate(as_plain(one))
