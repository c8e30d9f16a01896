from parsimony_kernel.core.policy import *
