"""Distances between two samples of features, their noise floor, and the verdict."""
