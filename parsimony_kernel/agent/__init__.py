"""The agent's run loop: state, events, model calls and failure recovery."""
