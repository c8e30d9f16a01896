"""Looking at what a run needs, and saying what to do about what is missing.

Nothing is changed. Nothing leaves the machine unless it is asked for.
"""

from parsimony_kernel.doctor.examination import examine
from parsimony_kernel.doctor.finding import Finding

__all__ = ["Finding", "examine"]
