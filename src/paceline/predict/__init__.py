"""Step times at settings that were not measured: the law, its fit and priors, projections or refusals, what-ifs.

What to do about them is said in decide/.
"""
