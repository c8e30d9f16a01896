"""Rules for words that carry a request over from the one before."""

from parsimony_kernel.llm.offline.grammar.rules import Rule

RULES: tuple[Rule, ...] = ()
