"""Document 003's mechanisms as a library. A run does not import it."""
