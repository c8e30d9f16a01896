from parsimony_kernel.core.causes import *
