"""Sums that several views share; each module of reducers/ is one view."""
