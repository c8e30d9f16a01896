"""What a person is told instead of a traceback."""


class SessionError(Exception):
    """Why a turn, the journal or a file cannot be had. ``str()`` is a sentence with the remedy."""
