"""The steps between recordings and a training set: duplicates, leaks, noise, splits and mixtures.

What a step does to one record is a plain function of that record. `pipeline.py` makes `datatrove` steps of these
functions, so that the same step runs in this process, in several, or under Ray, with the same result.
"""
