"""One module NAME_command.py for each command: its docstring is the help, `arguments` adds options, `run` runs it.

cli/main.py imports a module only for its own command.
"""
