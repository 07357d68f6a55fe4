"""The clipping report as a table for a spreadsheet: the columns of `ClippingRow`, a row a row."""

from __future__ import annotations

import csv
import io

from quantflow.artifacts.ranges_record import ClippingReport, ClippingRow

COLUMNS = tuple(ClippingRow.model_fields)
"""Names of the columns; `worst_samples` are joined by spaces."""


def clipping_csv(report: ClippingReport) -> str:
    """The report as CSV (RFC 4180, but for lines that end in a newline alone).

    Numbers are the shortest text that reads back as the same float64.
    """
    stream = io.StringIO()
    table = csv.writer(stream, lineterminator="\n")
    table.writerow(COLUMNS)
    table.writerows([_cell(getattr(row, name)) for name in COLUMNS] for row in report.rows)
    return stream.getvalue()


def _cell(value: str | float | bool | tuple[str, ...]) -> str:
    if isinstance(value, tuple):
        return " ".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)
