"""What crawling, judging and searching cost in time and memory, beside a peer in the same run where there is one."""
