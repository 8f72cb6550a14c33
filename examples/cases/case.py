"""What all cases have in common: their options, their data, and the line that says what a run did.

    python examples/cases/NAME.py --make            # makes the input, untraced; only cases that have one
    python -m pyio_trace examples/cases/NAME.py     # the case, as it was found
    python -m pyio_trace examples/cases/NAME.py --fixed

Some cases run as ranks of an MPI program, too, with as many as mpiexec starts (needs mpi4py):

    mpiexec -n 4 python -m pyio_trace -o 'ranks/%r.pyio' examples/cases/NAME.py --ranks

Everything is in the folder `case-data/NAME`, or the one that --data names.  The
last line that a run prints is a JSON object of what it did, and `seconds`, its
own measurement of the part that matters.
"""

import argparse
import json
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: Counts and sizes by name: what the program says that it did.
Did = dict[str, Any]
#: What one rank does, with the folder and the communicator of all ranks; returns its own share of what was done.
OfRank = Callable[[Path, Any], Did]


def run(
    name: str,
    bad: Callable[[Path], Did],
    fixed: Callable[[Path], Did],
    make: Callable[[Path], object] | None = None,
    ranks: tuple[OfRank, OfRank] | None = None,
) -> None:
    """The main function of a case.  bad, fixed: get the folder; make: writes the input into it; ranks: bad and fixed as
    one rank of an MPI program."""
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--fixed", action="store_true", help="with the remedy")
    parser.add_argument("--data", type=Path, default=Path("case-data", name), metavar="FOLDER")
    if make is not None:
        parser.add_argument("--make", action="store_true", help="make the input and end")
    if ranks is not None:
        parser.add_argument("--ranks", action="store_true", help="as a rank of an MPI program: mpiexec -n 4 python ...")
    options = parser.parse_args()
    folder = options.data.absolute()
    if make is None:
        folder.mkdir(parents=True, exist_ok=True)
    elif options.make:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        make(folder)
        return
    elif not folder.is_dir():
        parser.error(f"{folder} is missing: run with --make first")
    if ranks is not None and options.ranks:
        run_rank(folder, ranks[options.fixed])
        return
    began = time.perf_counter()
    did = (fixed if options.fixed else bad)(folder)
    did.setdefault("seconds", round(time.perf_counter() - began, 3))
    print(json.dumps(did))


def run_rank(folder: Path, work: OfRank) -> None:
    """One rank: all begin together, and the first one says what all have done."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    world.Barrier()
    began = time.perf_counter()
    did = work(folder, world)
    world.Barrier()
    shares = world.gather(did)
    if shares is not None:
        whole: Did = {name: sum(share[name] for share in shares) for name in did}
        print(json.dumps({**whole, "processes": world.size, "seconds": round(time.perf_counter() - began, 3)}))
