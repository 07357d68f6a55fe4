"""Tables and the HTML page of a run. Reads artifacts, never recomputes."""
