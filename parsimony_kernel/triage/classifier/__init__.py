"""From a trajectory that failed to the type of the failure."""
