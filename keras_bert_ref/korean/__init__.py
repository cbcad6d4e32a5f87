"""Korean data sets, laid out for the commands; docs/learn/10_korean.md."""
