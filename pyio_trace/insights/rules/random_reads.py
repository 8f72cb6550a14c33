"""A line reads here and there in a file, in no order.

A disk or a network file system reads ahead of sequential reads, and starts over
after a jump. Read in the order of the offsets, shuffle blocks instead of items, or
read the whole file if it fits into memory. If all that was read came from memory
anyway, the order costs nothing, and the finding is "ok".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyio_trace.insights import libraries, words
from pyio_trace.insights.access_lines import ACCESSES, from_memory, lines, query, time_by_process
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.rule import Limit, Rule, Trial
from pyio_trace.insights.words import mechanisms as m
from pyio_trace.units import number, percent, seconds, size

if TYPE_CHECKING:
    from pyio_trace.insights.observed import Observed

_SHUFFLE = Remedy(
    "Let the sampler shuffle blocks of items, and the items within a block.",
    "DataLoader(data, shuffle=True)",
    "class Blocks(torch.utils.data.Sampler):\n"
    "    def __init__(self, count): self.count = count\n"
    "    def __len__(self): return self.count\n"
    "    def __iter__(self):    # in each epoch\n"
    "        for b in torch.randperm(-(-self.count // 256)).tolist():\n"
    "            block = range(256 * b, self.count)[:256]\n"
    "            order = torch.randperm(len(block)).tolist()\n"
    "            yield from (block[n] for n in order)\n"
    "DataLoader(data, sampler=Blocks(len(data)))",
    "torch",
)


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    cached = from_memory(run)
    for one in lines(run, "read"):
        regular = max((count for _, count in one.strides), default=0)
        jumps = one.forward + one.backward - regular
        each = one.moved_bytes // max(one.calls, 1)
        if one.calls < limits["calls"] or jumps < limits["share"] * one.placed or each > limits["bytes"]:
            continue
        if not one.backward or not one.forward:  # in one direction only: other findings
            continue
        accesses = run.calls.where_line(one.line or "").transfers("read")
        library = libraries.library_of(run, accesses)
        if library in libraries.OWN_ORDER:
            continue
        how = "all these reads; in order, or in larger blocks, they take some of it"
        times = time_by_process(run, one)
        gain = run.gain(times, how)
        yield Finding(
            title=f"{number(jumps)} of {number(one.placed)} reads jump to another place in the file",
            evidence=[
                Evidence(
                    f"{number(one.forward)} go forward, {number(one.backward)} backward, {number(one.consecutive)} on, "
                    f"{size(each)} each, {seconds(one.time_ns)} in all."
                    + (" All of it came from memory." if cached else ""),
                    {"reads": one.placed, "jumps": jumps, "backward": one.backward, "time_ns": one.time_ns},
                )
            ],
            remedy=_SHUFFLE
            if all(map(run.is_loader_worker, times))
            else words.remedy(m.RANDOM_READS, libraries.readers(run, accesses)),
            severity="ok" if cached else "warning",
            confidence=Confidence(0.6, f"offsets of {percent(one.placed / max(one.calls, 1))} of the reads are known"),
            query=query(one),
            **run.about(accesses, gain),
        )


RULE = Rule(
    "accesses",
    find,
    limits={
        "calls": Limit(1000, "reads of one line, at least"),
        "share": Limit(0.5, "of them that jump, at least"),
        "bytes": Limit(1 << 20, "of one of them on average, at most"),
    },
    needs=(ACCESSES,),
    topic="order",
    trial=Trial("pyio_trace.insights.trials.reads:in_order"),
)
