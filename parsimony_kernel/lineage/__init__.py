"""Provenance of variables, undo and redo: cell effects, the ledger of origins, checkpoints."""
