"""Widgets: an aid for input beside the record. They never carry it."""
