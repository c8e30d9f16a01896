"""The one function through which every action of a run passes, and what it answers."""
