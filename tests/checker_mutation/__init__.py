"""Mutation testing of the checkers: change their code by rule, and see whether the corpus of histories notices."""
