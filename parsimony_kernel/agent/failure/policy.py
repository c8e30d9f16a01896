from parsimony_kernel.core.causes import *
from parsimony_kernel.core.kinds import FailureKind as FailureKind
