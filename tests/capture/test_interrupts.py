"""Programs that end by a signal they send themselves, as Python does after Ctrl-C: log and summary are there."""

from __future__ import annotations

import pytest

from tests.support.programs import Outcome, Runner, succeeded

#: The end of a program -> how the process table has it.
ENDS = {
    "Ctrl-C at a terminal": ("os.killpg(0, signal.SIGINT)\ntime.sleep(60)", "signal 2 (SIGINT)"),
    "cleaned up after SIGTERM": (
        "def end(number, frame):\n"
        "    signal.signal(number, signal.SIG_DFL)\n"
        "    os.kill(os.getpid(), number)\n"
        "signal.signal(signal.SIGTERM, end)\n"
        "os.kill(os.getpid(), signal.SIGTERM)\ntime.sleep(60)",
        "signal 15 (SIGTERM)",
    ),
    "raise": ("signal.raise_signal(signal.SIGHUP)", "signal 1 (SIGHUP)"),
    "caught": (
        "try:\n    os.killpg(0, signal.SIGINT)\n    time.sleep(60)\nexcept KeyboardInterrupt:\n    sys.exit(130)",
        "exit 130",
    ),
    "ignored": ("signal.signal(signal.SIGTERM, signal.SIG_IGN)\nos.kill(os.getpid(), signal.SIGTERM)", "exit 0"),
    "blocked": (
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])\nos.kill(os.getpid(), signal.SIGHUP)",
        "exit 0",
    ),
}
IMPORTS = "import os, signal, sys, time\nopen('data', 'w').close()\n"


def packed(program: Runner, text: str, **env: str | None) -> Outcome:
    """Run as the leader of a session, with a summary."""
    return program.traced(text, log="run.parquet", env={"PYIO_TRACE_QUIET": None, **env})


@pytest.mark.parametrize("way", ENDS)
def test_log_and_summary_of_a_program_that_ends_by_its_own_signal(program: Runner, way: str) -> None:
    # GIVEN a program that ends so
    text, ended = ENDS[way]
    # WHEN it is run bare and traced
    bare = program.bare(IMPORTS + text)
    outcome = packed(program, IMPORTS + text)
    # THEN it ends as it does untraced, its log is packed, and a summary follows what it says itself
    assert outcome.status == bare.status
    assert outcome.stderr.startswith(bare.stderr)
    assert "pyio_trace: " in outcome.stderr.removeprefix(bare.stderr)
    assert outcome.process(outcome.pid)["ended"] == ended
    assert outcome.select(op="open", layer="posix", path=program.folder / "data")
    assert not (program.folder / "run.pyio").exists()


def test_ctrl_c_when_the_program_has_ended_changes_neither_status_nor_log(program: Runner) -> None:
    # GIVEN a terminal at which Ctrl-C is pressed while the interpreter that packs the log is starting
    text = "import os, signal\nif os.environ.get('PYIO_TRACE') == '0':\n    os.killpg(0, signal.SIGINT)\n"
    (program.folder / "at-start").mkdir()
    program.write(text, "at-start/sitecustomize.py")
    # WHEN a program ends by itself THEN its status is its own, and the log is packed
    outcome = succeeded(packed(program, "print('done')", PYTHONPATH=str(program.folder / "at-start")))
    assert outcome.stdout == "done\n"
    assert outcome.process(outcome.pid)["ended"] == "exit 0"
    assert "pyio_trace: " in outcome.stderr
