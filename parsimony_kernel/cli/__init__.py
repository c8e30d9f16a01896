"""The command line, ``jupyter parsimony``.

``commands.toml`` says what there is and how it is typed; the function that a command names is
imported when it runs, so that help is there at once. It gives the exit code, and raises what keeps
it from its work: ``main`` prints that in one line.
"""
