"""The record of a run: events folded into blocks, and blocks written as text, Markdown and HTML.

``fold`` folds events into a ``RunView``, ``outline`` gives the wording of each block once, and
``text`` and ``html`` write it. Nothing here waits, reads a clock or changes a run.
"""
