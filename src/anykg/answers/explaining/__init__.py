"""Explain the answers of a model: the paths it reads, the clauses that imply an answer, and the effect of removals."""
