"""The program works on files in a home folder.

On our cluster home folders are on a slow file system with backups. Data belong
on /scratch.
"""

from pyio_trace.rules import Confidence, Evidence, Finding, Limit, Remedy, Role, rule, seconds, size, sql


@rule("our cluster", limits={"bytes": Limit(1 << 20, "moved by one line, at least")})
def home_folder(run, limits):
    """Yield a finding for each line that moved much data to or from a home folder."""
    at_home = run.calls.where(role=Role.IO, own=True).matching(".*/(home|users)/")
    for line in at_home.by("site"):
        if line.moved < limits["bytes"]:
            continue
        # What each process (index) would save at most, in ns.  The time of one call is never counted twice: calls with
        # the role IO have none inside.
        times = {process["process"]: process.time for process in line.rows.by("process")}
        gain = run.gain(times, "all time in calls on these files; /scratch needs some of it too")
        yield Finding(
            title=f"{size(line.moved)} moved to or from a home folder",
            evidence=[Evidence(f"This took {seconds(line.time)}.", {"bytes": line.moved, "time_ns": line.time})],
            remedy=Remedy("Put data on /scratch.", 'open("/home/me/data.bin")', 'open("/scratch/me/data.bin")'),
            confidence=Confidence(0.6, "nobody knows how fast /scratch would have been"),
            query=sql.rows({"site": run.calls.site(line["site"]), "op_role": "io"}),
            **run.about(line.rows, gain),
        )
