"""Opilio in the company of other programs: what their users bring along, and what they take from here.

`ache.py` translates the configuration and the training data of ACHE into a collection. `model.py` is the newest model
of a collection without the collection: it judges pages that another program fetched, and links by their own words.
`scrapy.py` is a middleware that orders the requests of a Scrapy spider by such a model; `sklearn.py` has the page judge
as an estimator of scikit-learn.

Invariants: no other program is a dependency. A module that needs one imports it at its top, and only its users import
that module. What a foreign file says is data: nothing in it is executed, and whatever has no counterpart is reported,
never dropped silently.
"""
