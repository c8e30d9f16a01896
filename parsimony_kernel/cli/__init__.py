"""The command line, ``jupyter parsimony``.

``commands.toml`` defines the commands and their arguments. A command's function is imported only
when it runs, so that help is fast. It returns the exit code, or raises an error that ``main``
prints in one line.
"""
