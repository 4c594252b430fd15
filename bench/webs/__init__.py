"""Webs that are made for benchmarks: of any size, or of documentation at hand."""
