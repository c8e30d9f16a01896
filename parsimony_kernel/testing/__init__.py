"""Test doubles: a scripted model, a manual clock, a loopback provider, a live kernel.

They ship with the package, for users' tests as well as ours. Only tests import them.
"""
