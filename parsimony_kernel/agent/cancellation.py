from parsimony_kernel.core.cancellation import *
