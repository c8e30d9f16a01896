"""The commands of ``jupyter parsimony``, a module each.

A command has ``add(commands)``, which says how it is typed, ``run(arguments)``, which gives the
exit code, its ``EXAMPLES``, and where it takes ``--json`` the ``KEYS`` of what that gives. What it
does is in a module of its own, imported when it runs, so that help is there at once.
"""
