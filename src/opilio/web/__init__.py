"""The portal: what a user sees in the morning, and steers the crawl with at night.

One application (`app.create_app`, started by `opilio serve`) shows the collections of a `Shelf`. It holds no state of
its own beside who is signed in: pages and the REST API ask `Collection`, which asks the crawl that runs, or reads the
database when none does. Crawls that are begun here are processes of their own and outlive the server.

Reading needs no leave (the server listens on loopback); everything that changes state goes through the REST API, below
/api, and needs the token that `opilio serve` prints: as `Authorization: Bearer`, or as the session that signing in
gives to a browser, together with a header that no other site can send (`security`).

Pages are rendered on the server from templates that escape everything. The scripts add what pages cannot do alone: they
send forms to the API as JSON, draw charts (with D3, which a package brings along), and listen for live events. Nothing
comes from another host, and the Content-Security-Policy forbids it to.
"""
