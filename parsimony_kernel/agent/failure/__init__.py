"""The failure spine: one value, its detectors, a policy, and one funnel.

A door for the names of documents 000 and 002; inside the package, import the module that defines a
name.
"""

from parsimony_kernel.agent.failure.detectors import *
from parsimony_kernel.agent.failure.recovery import *
from parsimony_kernel.agent.failure.suspension import *
from parsimony_kernel.core.calls import *
from parsimony_kernel.core.endings import *
from parsimony_kernel.core.kinds import *
from parsimony_kernel.core.policy import *
