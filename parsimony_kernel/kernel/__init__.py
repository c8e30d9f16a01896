"""The Jupyter kernel (IPython's, renamed, with the extension loaded) and its installation."""
