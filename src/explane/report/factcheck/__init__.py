"""The fact check of a written report, on a code path of its own.

It reads nothing but the files: tables from CSV, queries from claims.json, texts as they stand.
None of the code that made the report is used to recompute or to read back a value.
"""
