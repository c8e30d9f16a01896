"""What is asked of how columns go together, once every word is resolved."""

from parsimony_kernel.llm.offline.analysis import Analysis
from parsimony_kernel.llm.offline.resolve.reading import Reading
from parsimony_kernel.llm.offline.resolve.subject import Subject


def correlation_analysis(subject: Subject, reading: Reading) -> Analysis | None:
    """The correlation of columns; none where the statement asks for none."""
    return None
