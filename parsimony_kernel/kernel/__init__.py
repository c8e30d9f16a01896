"""The Jupyter kernel: IPython's own, named, with the extension loaded; and its installation."""
