"""Processor time of spans that last: a call that computes has used what it took, one that waits has not."""

from __future__ import annotations

from tests.support.programs import Runner, succeeded

BURN = """\
import sys, threading, time
import pyio_trace
def burn(seconds):
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass
"""


def test_computing_and_waiting(program: Runner) -> None:
    # GIVEN a program with spans that compute or wait, while another thread computes all the time
    text = f"""\
{BURN}
done = threading.Event()
def beside():
    while not done.is_set():
        burn(0.001)
thread = threading.Thread(target=beside)
thread.start()
for name, work in (("computes", burn), ("waits", time.sleep)):
    before = time.thread_time_ns()
    with pyio_trace.span(name):
        work(0.05)
    print(name, time.thread_time_ns() - before)
done.set()
thread.join()
"""
    # WHEN it runs traced
    outcome = succeeded(program.traced(text))
    # THEN each span has the processor time of its own thread, which is within what the program measured around it
    around = {name: int(ns) for name, ns in (line.split() for line in outcome.stdout.splitlines())}
    spans = {row["op"]: row["cpu_time"] for row in outcome.select(layer="user")}
    assert 50_000_000 <= spans["computes"] <= around["computes"]
    assert 0 <= spans["waits"] <= around["waits"] < 50_000_000


def test_short_spans_have_none(program: Runner) -> None:
    # GIVEN a program with many spans that do nothing, and one of the same name that lasts
    text = f"""\
{BURN}
for _ in range(1000):
    with pyio_trace.span("step"):
        pass
with pyio_trace.span("step"):
    burn(0.05)
with pyio_trace.span("step"):
    burn(0.05)
"""
    # WHEN it runs traced
    outcome = succeeded(program.traced(text))
    # THEN nothing was measured for the short ones, nor for the first that lasted after them
    times = [row["cpu_time"] for row in outcome.select(op="step")]
    assert len(times) == 1002
    assert times[-1] >= 50_000_000
    assert times[-2] is None
    assert sum(time is not None for time in times) <= 100  # a busy machine interrupts a few


def test_a_request_of_a_library(program: Runner) -> None:
    # GIVEN a program that parses JSON for a while
    text = """\
import json, time
text = json.dumps(list(range(1_000_000)))
with open("data.json", "w") as file:
    file.write(text)
before = time.thread_time_ns()
with open("data.json") as file:
    json.load(file)
print(time.thread_time_ns() - before)
"""
    # WHEN it runs traced, and the log is packed
    outcome = succeeded(program.traced(text, log="run.parquet"))
    # THEN the request has its processor time, in the packed log too
    [row] = outcome.select(op="json.load")
    assert 0 < row["cpu_time"] <= int(outcome.stdout)
    assert {one["cpu_time"] for one in outcome.select(layer="posix")} == {None}


def test_a_forked_child_closes_its_parent_s_span(program: Runner) -> None:
    # GIVEN a span that a forked child leaves too
    text = f"""\
{BURN}
import os
with pyio_trace.span("both"):
    child = os.fork()
    burn(0.02)
if child:
    os.waitpid(child, 0)
"""
    # WHEN it runs traced
    outcome = succeeded(program.traced(text))
    # THEN there is one span, with the time of the thread that opened it
    [row] = outcome.select(op="both")
    assert 20_000_000 <= row["cpu_time"] <= row["duration"]
