"""HTML pages that are one file and need nothing else: no network, no library.

What they show comes from anywhere – sentences, flags, file names – and is
shown as itself: it is escaped, and only scripts of this package run (the page
names their hashes in its Content-Security-Policy).
"""
