"""Starts the kernel: ``python -m parsimony_kernel -f {connection_file}``."""

import sys
from pathlib import Path

if __name__ == "__main__":
    # A notebook's folder is the working folder, and a random.py in it must not stand in for the
    # standard library's while the kernel loads. IPython puts the folder back for the user's code.
    if sys.path and (sys.path[0] == "" or Path(sys.path[0]) == Path.cwd()):
        del sys.path[0]

    from parsimony_kernel.kernel.app import ParsimonyKernelApp

    ParsimonyKernelApp.launch_instance()
