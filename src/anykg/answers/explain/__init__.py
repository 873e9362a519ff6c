"""Why a model gives an answer: the paths it reads, the clauses that imply it, and what removing them does."""
