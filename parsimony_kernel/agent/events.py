from parsimony_kernel.core.events import *
