"""The parts of the reporting form, each a function from a table or traces to blocks."""
