"""Stand-ins that tests hand to the real machinery: a scripted model, a manual clock, a provider.

They ship with the package, for a user's tests as for ours. Nothing outside of tests imports them.
"""
