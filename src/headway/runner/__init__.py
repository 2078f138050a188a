"""Beside the user process: starts it, watches it, writes down what it says and how it ended.

Standard library and `headway.protocol` alone, so that it starts at once and outlives every server.
"""
