from parsimony_kernel.core.outputs import *
