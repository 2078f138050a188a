"""The user's side of a dataset push: a source's files, hashed, compared with what the store has, packed and sent.

`push.Push` is the whole of it; a source is a folder, an archive, a file or a URL (`sources.py`).
"""
