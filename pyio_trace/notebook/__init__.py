"""Logs in a notebook: a magic that traces a cell, HTML of what is shown, and plots."""
