from parsimony_kernel.core.conversation import *
