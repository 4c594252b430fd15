"""The portal: browse, search and train collections, and watch and steer crawls, in a browser or through REST.

One application (`app.create_app`, started by `opilio serve`) shows the collections of a `Shelf` (`shelf.py`). It keeps
no state except who is signed in: pages and the REST API call the methods of `Collection`. Crawls that are started here
are processes of their own and outlive the server (`start.py`).

REST routes that call one operation are derived from the table of operations (`api.py`). The modules of the pages have
the other routes: `start.py` (start page, sign-in, new collections), `browsing.py` (topics and pages), `finding.py`
(search), `watching.py` (the crawl), `teaching.py` (training data and models), `asking.py` (questions of the crawl),
`reviewing.py` (clusters and reviews), `console.py` (SQL), `peering.py` (what other servers of a federation ask for).
`publishing.py` writes a portal as files, and `site_index.py` the index that its search reads. `federated.py` and
`federation_pages.py` are another application: one search over several collections.

Invariants: reading needs no permission (the server listens on loopback). Everything that changes state goes through the
REST API, or through a plain form where a page works without JavaScript. It needs the token that `opilio serve` prints:
as `Authorization: Bearer`, or as a browser session together with a secret that no other site knows (`security.py`).
Templates escape everything. Scripts and styles come from this server only, and the Content-Security-Policy enforces
that.
"""
