"""The summary of a run: its rows, the reducers that add them up, the figures made of the sums."""
