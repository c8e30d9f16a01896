"""Published work: snapshots addressed by their content, and the log of each artifact."""
