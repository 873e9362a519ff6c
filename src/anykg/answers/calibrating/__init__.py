"""Probabilities of answers: learnt from hidden facts, corrected for facts that are missing, kept in the cache."""
