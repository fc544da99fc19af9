"""How much a file of examples may hold; all of it is checked before anything is unpacked."""

MOST_BYTES = 2**29  # 512 MiB: of a table of text, or of the arrays of an archive; `most_bytes` raises it
MOST_COLUMNS = 100_000  # of a table
MOST_LINE = 2**22  # characters of one line of a table
MOST_CLASSES = 1_000  # of a column of labels
MOST_HEADER = 10_000  # bytes of the header of an array
MOST_MEMBERS = 1_000  # arrays of an archive


def in_words(count: int) -> str:
    """A number of bytes as people say it."""
    amount, units = float(count), ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"]
    while amount >= 1024 and len(units) > 1:
        amount, units = amount / 1024, units[1:]
    return f"{amount:.3g} {units[0]}"
