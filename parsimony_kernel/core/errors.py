"""Errors shown to a person in place of a traceback."""


class SessionError(Exception):
    """A turn, the journal or a file is unavailable. ``str()`` is a sentence with the remedy."""
