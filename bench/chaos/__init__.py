"""Chaos: one collection is crawled while everything around it fails, and what must hold is checked after each fault.

    python -m bench.chaos [--minutes 30] [--quick] [--seed 1] [--folder FOLDER]

A standing crawl (`opilio crawl --keep-fresh`) of the local web, its misbehaving hosts included, runs as a process of
its own. Its requests go through a network of ours, a forwarder on loopback (`network.py`), and through real servers
where they are installed (`servers.py`): nginx stands in front of the well-behaved hosts and serves one of its own;
every other run of the crawl takes a squid for its proxy and a dnsmasq for its name server. Those that are not installed
are named in the report and left out.

Every few seconds something fails, drawn by lot (`faults.py`): the engine or a worker is killed, the network refuses or
stalls for a while, connections are cut in the middle, the web's server stops, nginx is killed, restarted or reloaded,
squid or dnsmasq is killed for a while, a user interrupts, a stranger sends nonsense to the portal. A copy of the
collection is damaged now and then, verified and repaired. In the second half of a run of more than ten minutes, nothing
ends the crawl's process, so that its growth can be seen.

Counted, and all but the first four and the last six wanted to be 0 (`figures.py`):

- `faults` injected, `runs` of the crawl, `checks` made (`opilio verify`, and the comparisons below), `pages` stored;
- `pages_lost`: pages that were committed before a kill and are gone after it, or that a repair could not bring back;
- `defects`: what `opilio verify` found wrong after a kill, and damages that it did not notice;
- `impolite`: requests to a host sooner than its delay after the end of the one before;
- `crashes`: runs that ended otherwise than by a kill, an interrupt, or an outage that was too long;
- `interrupts_lost`: interrupts that did not end the crawl within a minute, of `interrupts`;
- `hosts_blamed`: well-behaved hosts given up because they could not be resolved or connected to: that was us;
- `portal_errors`: answers of the portal with a status of 500 or more to nonsense, or none at all;
- `peak_mb` of the crawl's processes together, `peak_files` open in the engine, and the growth of memory (of all
  processes, and of the engine; without libraries and other files), files, database and WARC files an hour over the
  second half of the run. Growth of memory and files is that within runs of the crawl, without the first third of the
  steady half, in which the crawl reads what is stored and takes up its work: a shorter time would show how a process
  starts.

Ends with exit code 1 when one that should be 0 is not. The last line is JSON.
"""
