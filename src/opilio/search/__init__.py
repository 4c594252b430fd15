"""Results: a full-text index of the collection, the portal's views of it, clusters, and the assisted review.

The index (`index`) is a folder beside the database that can be thrown away and made anew. While a crawl runs the crawl
keeps it up to date; otherwise whoever searches does. Searching reads its files only: it takes nothing from the crawl.
"""
