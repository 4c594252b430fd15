"""Documents that are not web pages: PDF, office files, books, archives.

Each reader registers for its MIME types (`DOCUMENTS` in `opilio.analyze.formats`). Readers run in the extraction
process only, since they may fail, hang or crash on what the web gives them. `reading.py` bounds what a file may unpack
to.
"""
