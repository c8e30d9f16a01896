"""Library of document 003's patterns for custom agent loops; a run doesn't import it."""
