"""The contract suites for engines, stores and object stores, shipped for those who write their own.

Import them in a test module and subclass; they need pytest.
"""
