from parsimony_kernel.core.kinds import *
