"""A page that shows what a BERT does with a text; docs/VIEW.md."""
