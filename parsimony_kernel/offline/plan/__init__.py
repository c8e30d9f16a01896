"""From a transcript to the next step: load, understand, look or ask, keep, compute, publish."""
