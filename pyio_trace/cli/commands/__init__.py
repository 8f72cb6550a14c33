"""One module a command: its docstring is its help, `arguments` its options, `run` its work.

cli/main.py imports a module only when its command is typed.
"""
