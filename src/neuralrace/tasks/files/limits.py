"""How much a file of examples may hold; all of it is checked before anything is unpacked."""

MOST_BYTES = 2**29  # 512 MiB: of a table of text, or of the arrays of an archive; `most_bytes` raises it
MOST_COLUMNS = 100_000  # of a table
MOST_LINE = 2**22  # characters of one line of a table
MOST_CLASSES = 1_000  # of a column of labels
