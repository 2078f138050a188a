"""Bytes: the commit protocol, the project's quota, checks by kind, object stores, snapshots and datasets.

Nothing heavy is loaded before it is used: the helper must start fast.
"""
