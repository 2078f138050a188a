"""Use cases, one module a word: authorise, decide, commit, hint. They write what is wanted and never start a process.

Each function takes the `Services` and the caller first, raises a `HeadwayError`, and returns a wire model.
"""
