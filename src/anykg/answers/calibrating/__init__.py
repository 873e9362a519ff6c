"""Probabilities of answers: learnt from hidden facts, corrected for missing facts, and cached."""
