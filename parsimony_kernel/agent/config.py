from parsimony_kernel.core.config import *
