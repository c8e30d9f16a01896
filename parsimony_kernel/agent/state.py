from parsimony_kernel.agent.failure.suspension import *
from parsimony_kernel.core.state import *
