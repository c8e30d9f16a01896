"""Errors shown to a person in place of a traceback."""


class SessionError(Exception):
    """What a person asked for can't be done. ``str()`` is a sentence with the remedy."""
