"""The reinforcement-learning maths on the host: numpy only, pure functions, everything decided by masks.

Inputs may be float32 or float64; sums are taken in float64 and arrays are returned as float32, ready to enter a graph.
What a pad holds never matters, not even NaN.
"""
