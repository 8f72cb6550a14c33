"""Case 12, import storm: a job whose start-up imports a thousand small modules, in every process.

Two processes each import a package that imports all of its modules, to call one
function.  With --fixed they import the module that has it.
"""

import subprocess
import sys
from pathlib import Path

import case

MODULES, PROCESSES = 1000, 2


def make(folder: Path) -> None:
    package = folder / "toolbox"
    package.mkdir()
    for number in range(MODULES):
        (package / f"part{number:04}.py").write_text(
            f"TABLE = {list(range(20))}\n\n\ndef work():\n    return {number}\n"
        )
    (package / "__init__.py").write_text("")
    (package / "everything.py").write_text("".join(f"from . import part{n:04}\n" for n in range(MODULES)))
    (folder / "eager.py").write_text("from toolbox import everything\nprint(everything.part0007.work())\n")
    (folder / "lazy.py").write_text("from toolbox import part0007\nprint(part0007.work())\n")


def job(folder: Path, script: str) -> case.Did:
    command = [sys.executable, "-B", str(folder / script)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(PROCESSES)]
    answers = [process.communicate()[0].strip() for process in processes]
    assert answers == [b"7"] * PROCESSES
    return {"processes": PROCESSES, "modules": PROCESSES * (MODULES if script == "eager.py" else 1)}


if __name__ == "__main__":
    case.run("import_storm", lambda folder: job(folder, "eager.py"), lambda folder: job(folder, "lazy.py"), make)
