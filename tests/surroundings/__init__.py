"""The tests where the machine, the user or the shell is another: `python -m tests.surroundings`."""
