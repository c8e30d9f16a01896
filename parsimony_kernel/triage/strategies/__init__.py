"""What a recovery action is made from: one strategy per file, each an async function."""
