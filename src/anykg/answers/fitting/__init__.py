"""Fit several models to one graph and learn how to combine them."""
