"""The kernel that front ends show as Parsimony Agent.

It is IPython's kernel under a name of its own: execution, completion, the debugger and
``language_info`` are inherited untouched, so that every front end treats its notebooks as Python.
"""

import sys

from ipykernel.ipkernel import IPythonKernel
from traitlets import List

from parsimony_kernel import __version__


class ParsimonyKernel(IPythonKernel):
    """IPython's kernel, introducing itself as Parsimony Agent."""

    implementation = "parsimony"
    implementation_version = __version__

    help_links = List(
        [
            {
                "text": "Python Reference",
                "url": f"https://docs.python.org/{sys.version_info[0]}.{sys.version_info[1]}",
            },
            {
                "text": "IPython Reference",
                "url": "https://ipython.readthedocs.io/en/stable/",
            },
            {
                "text": "pandas Reference",
                "url": "https://pandas.pydata.org/docs/reference/",
            },
            {
                "text": "Altair Reference",
                "url": "https://altair-viz.github.io/user_guide/api.html",
            },
        ]
    ).tag(config=True)

    @property
    def banner(self) -> str:
        """What a console prints at its start."""
        return (
            f"Parsimony Agent {__version__}: begin a cell with %%agent and say what you want; "
            f"%agent help tells the rest\n{self.shell.banner}"
        )
