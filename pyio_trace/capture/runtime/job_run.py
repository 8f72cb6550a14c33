"""One id for all ranks of a parallel program, on all its hosts, from what their launcher passes to each of them.

Nothing is sent between the ranks: the program must not notice, and not all of
them need to be traced.
"""

from pyio_trace.values import first_word, job_in, rank_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Variables with an id of the launch, the innermost launcher's first, as in values: torchrun; Intel MPI; Open MPI's
#: mpirun and whatever else speaks PMIx, such as srun --mpi=pmix.
_IDS = ("TORCHELASTIC_RUN_ID", "I_MPI_HYDRA_UUID", "PMIX_NAMESPACE")
#: Those of which MPICH's mpiexec gives one to each rank, and no id.
_OF_HYDRA = ("HYDI_CONTROL_FD", "PMI_FD", "PMI_PORT")
#: What it starts on each host has this option: the host and port at which mpiexec listens.
_CONTROL = b"--control-port"
_PROXY = b"pmi_proxy"
#: Processes that may stand between that and a rank, such as a shell; bytes of a command line that are looked at.
_MOST, _LONGEST = 8, 1 << 12


def job_run(environ: "Mapping[str, str]", parent: int) -> str:
    """The id; "" of a process in no job.  parent: the number of the process that started this one.

    A batch job whose launcher has no id of its own is known by its job and step.
    """
    found = first_word(environ, _IDS) if rank_in(environ) is not None else ""
    if not found and any(name in environ for name in _OF_HYDRA):
        found = first_word({"": _control_port(parent)}, ("",))
    job = job_in(environ)
    return found or ".".join(filter(None, (job["job"], job["step"])))


def _control_port(process: int) -> str:
    """HOST:PORT of the mpiexec that has started this process or one before it; "": not found."""
    for words in _commands(process):
        if words[0].endswith(_PROXY) and _CONTROL in words[:-1]:
            return words[words.index(_CONTROL) + 1].decode("ascii", "replace")
    return ""


def _commands(process: int) -> "Iterator[list[bytes]]":
    """The command lines of a process, of its parent, and so on."""
    try:
        for _ in range(_MOST):
            if process <= 1:
                return
            with open(f"/proc/{process}/cmdline", "rb") as file:
                yield file.read(_LONGEST).split(b"\0")
            with open(f"/proc/{process}/stat", "rb") as file:
                process = int(file.read(_LONGEST).rpartition(b")")[2].split()[1])
    except (OSError, ValueError, IndexError):  # gone, or of another namespace
        return
