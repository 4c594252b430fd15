"""Documents that are not web pages: PDF, office files, books, archives.

Each reader registers for its kind (`DOCUMENTS` in `opilio.analyze.formats`). Readers run only in the extraction
process, because they may fail, hang or crash on files from the web. `reading.py` limits how much a file may unpack to;
`package.py` (zip and XML) and `fields.py` (Word's fields) serve several formats.
"""
