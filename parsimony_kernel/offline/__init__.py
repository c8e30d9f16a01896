"""The embedded model: a deterministic planner from transcripts to tool calls."""
