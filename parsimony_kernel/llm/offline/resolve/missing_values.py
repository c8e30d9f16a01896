"""What is asked of missing values, once every word is resolved."""

from parsimony_kernel.llm.offline.analysis import Analysis
from parsimony_kernel.llm.offline.resolve.reading import Reading
from parsimony_kernel.llm.offline.resolve.subject import Subject


def missing_analysis(subject: Subject, reading: Reading) -> Analysis | None:
    """The analysis of missing values; none where the statement asks for none."""
    return None
