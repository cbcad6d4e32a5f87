"""Commands under the names they had before each task got its own folder."""
