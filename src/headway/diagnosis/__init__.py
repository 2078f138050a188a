"""From facts to the first cause and its remedy.

So far: a sentence and a remedy for each cause of an attempt's end.
"""

from headway.diagnosis.causes import Finding, explain

__all__ = ["Finding", "explain"]
