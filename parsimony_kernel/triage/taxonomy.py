from parsimony_kernel.core.taxonomy import *
