"""Published artifacts: content-addressed snapshots, and the log of each artifact."""
