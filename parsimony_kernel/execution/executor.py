from parsimony_kernel.execution.base import BaseCodeExecutor as BaseCodeExecutor
from parsimony_kernel.execution.private import CodeExecutor as CodeExecutor
