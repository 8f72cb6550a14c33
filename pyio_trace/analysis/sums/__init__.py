"""Arithmetic that reducers share: sums by key, unions of ranges, histograms, bins. It knows no operation."""
