"""Alembic's environment and revisions: `env.py` is run by Alembic alone, `versions` holds one file a revision.

`headway.store.migrate` is the way in; a new table or column is a new revision here and the same change in `tables.py`.
"""
