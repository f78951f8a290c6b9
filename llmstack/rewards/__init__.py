"""Rewards that read text alone: rules, a function, a remote scorer, a verifier. None of them knows MindSpore."""
