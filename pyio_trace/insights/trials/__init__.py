"""Remedies tried without the program: recorded operations issued again, with and without the remedy.

Imported by `insights --verify` only.  The log is untrusted: its paths are opened
for reading, and only if they are regular files (originals.py); all that is written
lies in a folder of our own (scratch.py).
"""
