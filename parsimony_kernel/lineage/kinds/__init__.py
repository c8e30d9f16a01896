"""The kinds of objects that can be copied and set back, each by its exact type.

A copy is shallow: what lies in an object has a copy of its own. An object is set back where it
lies, so that whoever else holds it sees it too. No code of a person's is run for any of this.
"""
