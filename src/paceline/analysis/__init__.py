"""The pipeline: from what was measured to one Analysis, for studies and tables; comparing two; answers of recipes.

The other pure rooms do the work; this one says in which order.
"""
