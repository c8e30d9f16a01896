"""Lineage and undo beside ipyflow and kishu, on the same cells; see ``__main__``."""
