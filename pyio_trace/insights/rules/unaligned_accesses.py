"""Large reads or writes begin and end in the middle of a block.

A block that is written in part has to be read first, and on a striped file
system an access that crosses a boundary takes two servers; 20 % slower was
measured for 1 MiB writes on Lustre. Let offsets and sizes be multiples of the
block, or of the stripe.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyio_trace.insights import libraries, words
from pyio_trace.insights.access_lines import ACCESSES, empty_calls, lines, query, time_by_process
from pyio_trace.insights.finding import Confidence, Evidence, Finding
from pyio_trace.insights.rule import Limit, Rule, Trial
from pyio_trace.insights.words import mechanisms as m
from pyio_trace.units import number, seconds, size

if TYPE_CHECKING:
    from pyio_trace.insights.observed import Observed


#: The published cost of crossing a stripe's boundary with each write.
_SLOWER = 0.2
#: Kinds of file systems where the page cache hides it: no other server is asked for a second stripe.
_HERE = {"local", "overlay", "memory"}
#: Of other formats, the library decides where in a file it writes.
_PLACED = ("", "MPI", "h5py", "netCDF4")


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    for one in lines(run):
        each = one.moved_bytes // max(one.calls, 1)
        empty = empty_calls(one)  # at the end of a file, wherever that is
        unaligned, placed = one.unaligned - empty, one.placed - empty
        if unaligned <= 0 or unaligned < limits["share"] * placed:  # without known offsets both are 0
            continue
        if one.calls < limits["calls"] or each < limits["bytes"]:
            continue
        accesses = run.calls.where_line(one.line or "").transfers(one.direction)
        library = libraries.library_of(run, accesses)
        if library not in _PLACED:
            continue
        times = {process: int(time * _SLOWER / (1 + _SLOWER)) for process, time in time_by_process(run, one).items()}
        here = _HERE.issuperset(map(run.mounts.kind_of, run.files(accesses)))
        gain = run.gain(times, "a sixth of these calls: what crossing boundaries was measured to cost elsewhere")
        yield Finding(
            title=f"{number(unaligned)} {one.direction}s of {size(each)} do not begin at a block",
            evidence=[
                Evidence(
                    f"{number(unaligned)} begin and {number(one.unaligned_end)} end inside a "
                    f"block of {size(one.block_bytes)}; they took {seconds(one.time_ns)}.",
                    {"calls": placed, "unaligned": unaligned, "block": one.block_bytes, "time_ns": one.time_ns},
                )
            ],
            remedy=words.remedy(m.UNALIGNED, libraries.readers(run, accesses)),
            severity="info" if here else "warning",
            confidence=Confidence(0.5, "the file system's stripe is not in the log; a block is taken to be 4 KiB"),
            query=query(one),
            **run.about(accesses, gain),
        )


RULE = Rule(
    "accesses",
    find,
    limits={
        "calls": Limit(50, "reads or writes of one line, at least"),
        "bytes": Limit(65536, "of one of them on average, at least; smaller ones are small accesses"),
        "share": Limit(0.5, "of them that begin within a block, at least"),
    },
    needs=(ACCESSES,),
    topic="order",
    yields_to=("checkpoint-stall", "whole-file-again"),
    trial=Trial("pyio_trace.insights.trials.writes:aligned"),
)
