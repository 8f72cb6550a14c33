"""Other people's tests, untraced and traced: they must end the same.

`python -m tests.transparency --write` runs them and writes docs/evidence/transparency.md.
"""
