"""Checkpoints that are written, and made durable, on the training thread: training waits for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyio_trace.analysis.view_sums.call_table import CallTable
from pyio_trace.enums import OpClass, Role
from pyio_trace.insights import library_use, sql
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy, Term
from pyio_trace.insights.library_use import NEEDS, Group, calls_of
from pyio_trace.insights.observed import Observed, patterns
from pyio_trace.insights.rule import Limit, Rule, Trial
from pyio_trace.units import counted, seconds, size

_DISTRIBUTED = "torch.distributed.checkpoint.save"
_SAVES = ("torch.save", _DISTRIBUTED)
_ASYNC = Remedy(
    "Save beside training; and let each rank write one file, which it syncs once (single_file_per_rank, the default).",
    "dcp.save(state, checkpoint_id=path)",
    "pending = dcp.async_save(state, checkpoint_id=path)\n...\npending.result()    # before the next one",
    "torch",
)


def find(observed: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    """Processes whose main thread saves tensors."""
    saves = calls_of(observed, *_SAVES)
    for (process,), group in saves.by("process"):
        if not 0 <= process < len(observed.processes):
            continue
        main = group.where(tid == observed.processes[process]["pid"] for tid in group.column("tid").tolist())
        if len(main) and len(main) >= limits["saves"]:
            files = observed.calls.where_paths(_files(observed, main)).where(process=process)
            files = files.rows(files.columns["kind"] != OpClass.READ)  # a checkpoint that is loaded stalls nothing
            if max(files.total("outer"), main.total("duration")) >= limits["share"] * observed.wall_ns:
                yield _finding(observed, main, files)


def _files(observed: Observed, saves: Group) -> list[str]:
    """The files that were saved to; of a distributed checkpoint, those in its folder."""
    paths = saves.paths()
    if not len(saves.of(_DISTRIBUTED)):
        return paths
    folders = tuple(f"{path}/" for path in saves.of(_DISTRIBUTED).paths())
    return [*paths, *(path for path in observed.calls.paths() if path.startswith(folders))]


def _finding(observed: Observed, saves: Group, calls: CallTable) -> Finding:
    count, files = len(saves), calls.distinct("path")
    syncs = calls.where(role=Role.SYNC)
    opening = calls.where(kind=(OpClass.OPEN, OpClass.CLOSE), inside=0)
    saving = saves.total("duration")
    time = max(calls.total("outer"), saving)
    terms = [
        Term("torch.save", saving), Term("fsync and its family", syncs.total("outer")),
        Term("opening and closing the files", opening.total("outer")),
    ]  # fmt: skip
    how = "all calls on the checkpoints' files, as another thread could make them while training goes on"
    gain = observed.gain({int(saves.column("process")[0]): time}, how, "upper", terms)
    written = saves.total("asked") or calls.transfers("write").total("moved")  # a distributed save does not say
    evidence = Evidence(
        f"{count:,} {saves.ops()[-1]} of {size(written // count)} each, to {counted(files, 'file')}, took "
        f"{seconds(saving)}; {counted(syncs.total('calls'), 'sync')} {seconds(syncs.total('outer'))}; opening and "
        f"closing {seconds(opening.total('outer'))}.",
        {"saves": count, "files": files, "bytes": written, "syncs": syncs.total("calls"), "time_ns": time},
    )
    text = "Copy the state, and let a thread write it while training goes on"
    if files > 1 and syncs.total("calls") > 1:
        text += "; write all tensors to one file, and sync it once"
    remedy = Remedy(
        text + ".",
        "torch.save(model.state_dict(), f)\nos.fsync(f.fileno())",
        "state = {name: one.clone()\n         for name, one in model.state_dict().items()}\n"
        "pending = executor.submit(save, state)    # torch.save, one fsync\n"
        "...\npending.result()    # before the next one",
        "torch",
    )
    if len(saves.of(_DISTRIBUTED)):
        remedy = _ASYNC
    title = f"Checkpoints hold training up for {seconds(gain.ns)}"
    confidence = Confidence(0.8, "calls on the files are in the log", ["what the copy of the state costs is not known"])
    sites = list(dict.fromkeys([*observed.sites(calls), *saves.sites()]))
    lines = [f"{site.file}:{site.line}:{site.function}" for site in sites]
    query = sql.rows({"process": saves.processes(), "site": lines})
    return library_use.finding(
        observed, saves, title, gain, [evidence], remedy, confidence, sites=sites, query=query,
        files=patterns(calls.paths()),
    )  # fmt: skip


RULE = Rule(
    "PyTorch",
    find,
    {
        "saves": Limit(2, "torch.save on the main thread"),
        "share": Limit(0.03, "of the run that saves and syncs take"),
    },
    NEEDS,
    yields_to=("saved-storages",),
    trial=Trial("pyio_trace.insights.trials.checkpoints:beside_training", rows="files"),
)
