"""The record of a run: events folded into blocks, blocks written as three texts.

``fold`` makes a ``RunView`` of events, ``outline`` says once in words what a block holds, and
``text``, ``markdown`` and ``html`` write that. Nothing here waits, reads a clock or touches a run.
"""
