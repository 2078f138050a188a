"""Beside the user process, in headway's own environment: makes data and code ready, checks and publishes what appears.

The runner starts it and hears it; see `voice` for the words between them.
"""
